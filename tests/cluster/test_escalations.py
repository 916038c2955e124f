"""What the committed roles could be used for beyond their purpose, by trying: each way is denied, or it is listed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx
import pytest

from tests.apiserver import ApiServer, User
from tests.cluster.escalation_requests import (
    OTHERS,
    SYSTEM,
    THERE,
    Person,
    Request,
)
from tests.cluster.escalation_server import (
    ADMINISTRATOR,
    MINE,
    applied,
    client_of,
    furnished,
    objects_of,
    takes_privileged_pods,
)
from tests.cluster.escalations import OWN, Attempt, attempts
from tests.cluster.project import ROOT
from trainstack.cli.rights import rights_in
from trainstack.cli.session import Session
from trainstack.platform.rbac.rights import Grant
from trainstack.settings.values.stack_name import stacks

pytestmark = pytest.mark.cluster

PAGE = ROOT / "docs" / "escalations.md"
DENIED, WITHIN, BEYOND = "·", "own", "cluster"
"""Cells of the table: denied; listed, within the role's own namespaces; listed, beyond them."""


@dataclass(frozen=True)
class Outcome:
    """What one person has reached."""

    reached: Mapping[str, frozenset[str]]
    """By the title of an attempt: the places in which it succeeded."""
    listed: frozenset[tuple[str, str]]
    """Id and namespace of each escalation that is listed for the role."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server with the kinds of the operators, and things of others in its namespaces."""
    with furnished(tmp_path_factory.mktemp("escalations")) as running:
        yield running


@pytest.fixture(scope="module")
def outcomes(server: ApiServer) -> dict[str, Outcome]:
    """By role: what everybody of every environment has reached."""
    found: dict[str, Outcome] = {}
    # What `kubeflow` enforces in other environments would protect it in the one for which it is somebody else's.
    for stack in sorted(stacks(ROOT), key=lambda each: (bool(objects_of(each, "Namespace")), each)):
        session = Session(ROOT, stack)
        made = rights_in(session)
        with applied(server, session) as people:
            for person in people:
                listed = frozenset((each.id, each.namespace) for each in made.escalations[person.role])
                found[_column(stack, person.role)] = Outcome(_try_all(server, person), listed)
    return found


def test_every_attempt_succeeds_for_an_administrator(server: ApiServer) -> None:
    """So none is denied for another reason than a lack of rights."""
    names = {("apiextensions.k8s.io", "customresourcedefinitions", "workloads.kueue.x-k8s.io")}
    granted = frozenset(Grant(group, resource, "patch", name=name) for group, resource, name in names)
    person = Person(ADMINISTRATOR, THERE, (MINE,), granted)
    reached = _try_all(server, person)
    assert reached == {
        each.title: frozenset(MINE if place == OWN else place for place in each.places)
        for each in attempts()
        if not each.stores
    }


def test_every_escalation_is_denied_or_listed(outcomes: Mapping[str, Outcome]) -> None:
    """By the API server, for each committed role; and nothing is listed that does not succeed."""
    means = {each.title: each.means for each in attempts()}
    unlisted, idle = [], []
    for role, outcome in outcomes.items():
        shown = set()
        for title, places in outcome.reached.items():
            for place in places:
                known = {each for each in outcome.listed if each[0] in means[title] and each[1] in ("", place)}
                shown |= known
                if not known:
                    unlisted.append(f"{role}: {title}: {place or 'cluster'}")
        idle += [f"{role}: {each}" for each in sorted(outcome.listed - shown)]
    assert {"not listed": unlisted, "listed, and denied": idle} == {"not listed": [], "listed, and denied": []}


def test_the_table_of_the_page_is_what_was_tried(outcomes: Mapping[str, Outcome]) -> None:
    """Roles that reach the same share a column."""
    table = _table(outcomes)
    assert table in PAGE.read_text(encoding="utf-8"), f"{PAGE.name} has another table than this one:\n{table}"


def _column(stack: str, role: str) -> str:
    return f"{stack} {role.removeprefix(f'trainstack-{stack}-')}"


def _table(outcomes: Mapping[str, Outcome]) -> str:
    cells = {
        role: tuple(_cell(role, each, outcome.reached[each.title]) for each in attempts())
        for role, outcome in sorted(outcomes.items())
    }
    columns: dict[tuple[str, ...], list[str]] = {}
    for role, column in cells.items():
        columns.setdefault(column, []).append(role)
    head = ["attempt", *("<br>".join(roles) for roles in columns.values())]
    rows = [[each.title, *(column[index] for column in columns)] for index, each in enumerate(attempts())]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(role: str, attempt: Attempt, reached: frozenset[str]) -> str:
    if not reached:
        return DENIED
    beyond = reached & {"", SYSTEM, OTHERS}
    return BEYOND if beyond else WITHIN


def _try_all(server: ApiServer, person: Person) -> dict[str, frozenset[str]]:
    groups = ("system:masters",) if person.user == ADMINISTRATOR else ()
    with client_of(server, User(person.user, groups)) as client:
        return {
            each.title: frozenset(_reached(server, client, person, each))
            for each in attempts()
            if not (each.stores and person.user == ADMINISTRATOR)
        }


def _reached(server: ApiServer, client: httpx.Client, person: Person, attempt: Attempt) -> Iterator[str]:
    places = dict.fromkeys(
        where
        for place in attempt.places
        for where in (person.namespaces if place == OWN else (place,))
        if place == OWN or where not in person.namespaces
    )
    for place in places:
        answers = [_send(client, each) for each in attempt.tries(person, place)]
        assert answers, f"{attempt.title}: nothing was tried"
        succeeded = [each for each in answers if _succeeded(each, connects=attempt.connects)]
        if succeeded and (not attempt.makes_pods or takes_privileged_pods(server, place)):
            yield place


def _send(client: httpx.Client, request: Request) -> httpx.Response:
    content = None if request.body is None else json.dumps(request.body).encode()
    headers = {"Content-Type": request.content_type, **dict(request.headers)}
    if len(request.headers) > len(dict(request.headers)):
        raise ValueError(f"{request.headers}: a header is given twice")
    return client.request(
        request.verb, request.path, content=content, headers=headers, params=httpx.QueryParams(request.query)
    )


def _succeeded(answer: httpx.Response, *, connects: bool) -> bool:
    """Whether a request got through. An answer that is neither that nor a refusal is a fault of the attempt."""
    if answer.status_code == httpx.codes.FORBIDDEN:
        return False
    # What exists already was about to be created.
    through = answer.is_success or answer.status_code == httpx.codes.CONFLICT
    assert connects or through, f"{answer.request.method} {answer.request.url}: {answer.text}"
    return True
