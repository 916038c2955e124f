"""Attempts at privilege escalation with the committed roles: each is denied, or listed for its role."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx
import pytest

from tests.apiserver import ApiServer, User
from tests.cluster.escalation_requests import (
    EXISTING,
    OTHERS,
    SYSTEM,
    Person,
    Request,
)
from tests.cluster.escalation_server import (
    ADMIN_NAMESPACE,
    ADMINISTRATOR,
    admits_privileged_pods,
    applied_rights,
    client_of,
    objects_of,
    populated_server,
)
from tests.cluster.escalations import OWN, Attempt, attempts
from tests.cluster.project import ROOT
from trainstack.cli.commands.rights import rights_in
from trainstack.cli.session import Session
from trainstack.platform.rbac.rights import Grant
from trainstack.settings.values.stack_name import list_stacks

pytestmark = pytest.mark.cluster

PAGE = ROOT / "docs" / "escalations.md"
DENIED, WITHIN, BEYOND = "·", "own", "cluster"
"""Cells of the table: denied; listed, within the role's own namespaces; listed, beyond them."""


@dataclass(frozen=True)
class Outcome:
    """The result of all attempts with one role."""

    reached: Mapping[str, frozenset[str]]
    """The places in which an attempt succeeded, by its title."""
    listed: frozenset[tuple[str, str]]
    """Id and namespace of every escalation that is listed for the role."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Yield an API server with the operators' kinds, and with objects of other owners in its namespaces."""
    with populated_server(tmp_path_factory.mktemp("escalations")) as running:
        yield running


@pytest.fixture(scope="module")
def outcomes(server: ApiServer) -> dict[str, Outcome]:
    """Return the outcomes for all roles of all environments, by role."""
    found: dict[str, Outcome] = {}
    # Environments without namespaces of their own are first: the others set security labels on `kubeflow`, which
    # would also protect it in an environment where it has another owner.
    for stack in sorted(list_stacks(ROOT), key=lambda name: (bool(objects_of(name, "Namespace")), name)):
        session = Session(ROOT, stack)
        rights = rights_in(session)
        with applied_rights(server, session) as people:
            for person in people:
                listed = frozenset(
                    (escalation.id, escalation.namespace) for escalation in rights.escalations[person.role]
                )
                found[_column(stack, person.role)] = Outcome(_try_all(server, person), listed)
    return found


def test_every_attempt_succeeds_for_an_administrator(server: ApiServer) -> None:
    """An attempt can therefore only be denied for a lack of rights."""
    names = {("apiextensions.k8s.io", "customresourcedefinitions", "workloads.kueue.x-k8s.io")}
    granted = frozenset(Grant(group, resource, "patch", name=name) for group, resource, name in names)
    person = Person(ADMINISTRATOR, EXISTING, (ADMIN_NAMESPACE,), granted)
    reached = _try_all(server, person)
    assert reached == {
        attempt.title: frozenset(ADMIN_NAMESPACE if place == OWN else place for place in attempt.places)
        for attempt in attempts()
        if not attempt.stores
    }


def test_every_escalation_is_denied_or_listed(outcomes: Mapping[str, Outcome]) -> None:
    """The API server decides, for each committed role; every listed escalation must succeed."""
    means = {attempt.title: attempt.means for attempt in attempts()}
    unlisted, denied = [], []
    for role, outcome in outcomes.items():
        confirmed = set()
        for title, places in outcome.reached.items():
            for place in places:
                matches = {entry for entry in outcome.listed if entry[0] in means[title] and entry[1] in ("", place)}
                confirmed |= matches
                if not matches:
                    unlisted.append(f"{role}: {title}: {place or 'cluster'}")
        denied += [f"{role}: {entry}" for entry in sorted(outcome.listed - confirmed)]
    assert {"not listed": unlisted, "listed, and denied": denied} == {"not listed": [], "listed, and denied": []}


def test_the_page_has_the_table_of_the_outcomes(outcomes: Mapping[str, Outcome]) -> None:
    """Roles with equal outcomes share a column."""
    table = _table(outcomes)
    assert table in PAGE.read_text(encoding="utf-8"), f"{PAGE.name} has another table than this one:\n{table}"


def _column(stack: str, role: str) -> str:
    return f"{stack} {role.removeprefix(f'trainstack-{stack}-')}"


def _table(outcomes: Mapping[str, Outcome]) -> str:
    cells = {
        role: tuple(_cell(role, attempt, outcome.reached[attempt.title]) for attempt in attempts())
        for role, outcome in sorted(outcomes.items())
    }
    columns: dict[tuple[str, ...], list[str]] = {}
    for role, column in cells.items():
        columns.setdefault(column, []).append(role)
    head = ["attempt", *("<br>".join(roles) for roles in columns.values())]
    rows = [[attempt.title, *(column[index] for column in columns)] for index, attempt in enumerate(attempts())]
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
            attempt.title: frozenset(_reached(server, client, person, attempt))
            for attempt in attempts()
            if not (attempt.stores and person.user == ADMINISTRATOR)
        }


def _reached(server: ApiServer, client: httpx.Client, person: Person, attempt: Attempt) -> Iterator[str]:
    places = dict.fromkeys(
        namespace
        for place in attempt.places
        for namespace in (person.namespaces if place == OWN else (place,))
        if place == OWN or namespace not in person.namespaces
    )
    for place in places:
        answers = [_send(client, request) for request in attempt.make_requests(person, place)]
        assert answers, f"{attempt.title}: nothing was tried"
        succeeded = [answer for answer in answers if _succeeded(answer, connects=attempt.connects)]
        if succeeded and (not attempt.makes_pods or admits_privileged_pods(server, place)):
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
    """Return whether a request was allowed. A response that is neither a success nor a refusal is a faulty attempt."""
    if answer.status_code == httpx.codes.FORBIDDEN:
        return False
    # A conflict means that the creation was allowed, but the object exists already.
    allowed = answer.is_success or answer.status_code == httpx.codes.CONFLICT
    assert connects or allowed, f"{answer.request.method} {answer.request.url}: {answer.text}"
    return True
