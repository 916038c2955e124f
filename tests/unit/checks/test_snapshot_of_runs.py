"""Where an environment's runs are looked for."""

from collections.abc import Sequence

import pytest

from tests.unit.checks.live import make_launch_body
from tests.unit.make import make_run, make_settings, make_storage
from trainstack.live import snapshot
from trainstack.live.client import Answer
from trainstack.live.snapshot import read_runs, run_namespaces
from trainstack.settings.sections.environment import Environment, Existing, Namespace


def test_an_owner_looks_everywhere_and_a_tenant_in_its_own_namespaces() -> None:
    """A run may be active in a namespace that the files do not name any more."""
    namespaces = (Namespace(name="research"),)
    run = make_run(namespace="team")
    assert run_namespaces(make_settings(run, environment=Environment(namespaces=namespaces))) == (None,)
    tenant = Environment(profile="tenant", namespaces=namespaces)
    assert "team" in run_namespaces(make_settings(run, environment=tenant))
    assert None not in run_namespaces(make_settings(run, environment=tenant))


def test_a_tenant_without_runs_still_looks_where_its_runs_may_be() -> None:
    """The one run that it declared may be active: its namespace is known by name alone now."""
    tenant = Environment(profile="tenant", existing=Existing(namespaces=("team",)))
    assert run_namespaces(make_settings(environment=tenant, storage=make_storage(volumes=()))) == ("team",)


def test_a_launch_that_is_being_deleted_is_gone_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its object takes what is written to it, and takes it along."""
    bodies = [make_launch_body(), make_launch_body()]
    bodies[1]["metadata"] |= {"name": "going", "deletionTimestamp": "2026-01-01T00:00:00Z"}

    def read(paths: Sequence[str], _: object) -> dict[str, Answer]:
        return {path: Answer(200, {"items": bodies if "/jobs?" in path else []}) for path in paths}

    monkeypatch.setattr(snapshot, "read", read)
    assert [each.name for each in read_runs(make_settings()).live] == [bodies[0]["metadata"]["name"]]
