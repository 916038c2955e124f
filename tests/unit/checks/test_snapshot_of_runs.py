"""Where an environment's runs are looked for."""

from checks.cluster.snapshot import run_namespaces
from settings.environment import Environment, Namespace
from tests.unit.make import make_run, make_settings


def test_an_owner_looks_everywhere_and_a_tenant_in_its_own_namespaces() -> None:
    """A run may be active in a namespace that the files do not name any more."""
    namespaces = (Namespace(name="research"),)
    run = make_run(namespace="team")
    assert run_namespaces(make_settings(run, environment=Environment(namespaces=namespaces))) == (None,)
    tenant = Environment(profile="tenant", namespaces=namespaces)
    assert "team" in run_namespaces(make_settings(run, environment=tenant))
    assert None not in run_namespaces(make_settings(run, environment=tenant))
