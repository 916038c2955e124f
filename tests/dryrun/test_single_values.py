"""Compare `trainstack check` with the API server in both directions, one value at a time.

The objects are built once, of a known value, in whose place the drawn one is then put: so the API server is asked about
values that do not load, too.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.dryrun import draws
from tests.dryrun.dry_run_project import SEED, SUPPRESSED, DryRunProject
from tests.dryrun.server import dry_run_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EXAMPLES_PER_FIELD = 150
"""The number of random values per field."""
WORD, PATH, SIZE, NUMBER = "known-value", "/known-value", "12321Mi", 12321
_JOB = ("workloads", "runs", draws.RUNS.index("job"))
_FLAVOR, _SPARE = ("queues", "flavors", 1), ("storage", "volumes", 3)


def as_key(value: Any) -> Any:
    """Return a map with the value as its key."""
    return {value: "x"}


def as_label(value: Any) -> Any:
    """Return a map with the value as the value of a label."""
    return {"a": value}


def unchanged(value: Any) -> Any:
    """Return the value."""
    return value


@dataclass(frozen=True)
class Field:
    """A field, and what is drawn for it."""

    path: tuple[str | int, ...]
    known: Any
    strategy: st.SearchStrategy[Any]
    wrap: Callable[[Any], Any] = unchanged
    """The function that makes the setting from the value."""

    def config(self, value: Any) -> draws.Config:
        """Return the environment with this value."""
        return draws.apply_changes([(self.path, self.wrap(value))])


FIELDS = {
    "env": Field((*_JOB, "env"), WORD, draws.words, as_key),
    "label key": Field((*_JOB, "labels"), WORD, draws.words, as_key),
    "label value": Field((*_JOB, "labels"), WORD, draws.words, as_label),
    "annotation key": Field((*_JOB, "annotations"), WORD, draws.words, as_key),
    "node selector key": Field((*_JOB, "nodeSelector"), WORD, draws.words, as_key),
    "node selector value": Field((*_JOB, "nodeSelector"), WORD, draws.words, as_label),
    "toleration key": Field((*_JOB, "tolerations"), WORD, draws.words, lambda value: [{"key": value, "value": "x"}]),
    "toleration value": Field((*_JOB, "tolerations"), WORD, draws.words, lambda value: [{"key": "x", "value": value}]),
    "container": Field((*_JOB, "container"), WORD, draws.names),
    "pull secret": Field((*_JOB, "imagePullSecrets"), WORD, draws.names, lambda value: [value]),
    "service account": Field((*_JOB, "serviceAccount"), WORD, draws.names),
    "image": Field((*_JOB, "image", "name"), WORD, draws.images),
    "working directory": Field((*_JOB, "workingDir"), PATH, draws.paths),
    "mount path": Field((*_JOB, "volumes", 0, "mountPath"), PATH, draws.paths),
    "limit": Field(
        (*_JOB, "resources"), "example.org/known", draws.resource_names, lambda value: {"limits": {"cpu": 1, value: 2}}
    ),
    "memory": Field((*_JOB, "resources"), SIZE, draws.quantities, lambda value: {"limits": {"memory": value}}),
    "shared memory": Field((*_JOB, "sharedMemory"), SIZE, draws.quantities),
    "run as user": Field((*_JOB, "runAsUser"), NUMBER, draws.integers),
    "deadline": Field((*_JOB, "activeDeadlineSeconds"), NUMBER, draws.integers),
    "ttl": Field((*_JOB, "ttlSecondsAfterFinished"), NUMBER, draws.integers),
    "backoff limit": Field((*_JOB, "backoffLimit"), NUMBER, draws.integers),
    "class name": Field(("storage", "classes", 1, "name"), WORD, draws.names),
    "provisioner": Field(("storage", "classes", 1, "provisioner"), WORD, draws.words),
    "host path": Field(("storage", "persistentVolumes", 0, "hostPath"), PATH, draws.paths),
    "claim name": Field((*_SPARE, "name"), WORD, draws.names),
    "claim size": Field((*_SPARE, "size"), SIZE, draws.quantities),
    "namespace": Field(("environment", "namespaces", 1, "name"), WORD, draws.names),
    "priority": Field(("queues", "priorityClasses", 0, "value"), NUMBER, draws.integers),
    "flavor label": Field((*_FLAVOR, "nodeLabels"), WORD, draws.words, as_key),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DryRunProject]:
    """Run an API server, and create a project for the random environments."""
    folder: Path = tmp_path_factory.mktemp("single")
    with dry_run_server(tmp_path_factory.mktemp("server")) as server:
        yield DryRunProject(folder, server)


@pytest.mark.parametrize("name", FIELDS)
def test_no_value_is_accepted_that_the_api_server_refuses(name: str, project: DryRunProject) -> None:
    """The test prints the values that only check refuses."""
    field = FIELDS[name]
    sound = project.accepted(field.config(field.known)) or []
    # A dry run in a namespace that does not exist fails.
    built = [
        body for body in sound if contains_known(body, field.known) and body["metadata"].get("namespace") != field.known
    ]
    assert built
    counts: Counter[str] = Counter()
    stricter: set[str] = set()

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=EXAMPLES_PER_FIELD, deadline=None, database=None, suppress_health_check=SUPPRESSED
    )
    @hypothesis.given(field.strategy)
    def agree(value: Any) -> None:
        accepted = project.accepted(field.config(value)) is not None
        refusals = project.server.refusals([replace_known(body, field.known, value) for body in built])
        counts[f"check {'accepts' if accepted else 'refuses'}, server {'refuses' if refusals else 'accepts'}"] += 1
        if not accepted and not refusals:
            stricter.add(repr(value)[:50])
        assert not (accepted and refusals), (value, refusals)

    agree()
    print(f"\n{name}: {dict(counts)}; refused by check alone: {', '.join(sorted(stricter)) or 'none'}")


def replace_known(body: Any, known: Any, value: Any) -> Any:
    """Return the object with every known value replaced by the value."""
    if isinstance(body, dict):
        return {replace_known(key, known, value): replace_known(item, known, value) for key, item in body.items()}
    if isinstance(body, list):
        return [replace_known(item, known, value) for item in body]
    return value if type(body) is type(known) and body == known else body


def contains_known(body: Any, known: Any) -> bool:
    """Return whether the known value is anywhere in the object."""
    return bool(replace_known(body, known, f"{known} replaced") != body)
