"""Where an environment's runs are looked for."""

from checks.cluster.snapshot import run_namespaces
from settings.environment import Environment, Existing, Namespace
from tests.unit.make import make_run, make_settings, make_storage


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
