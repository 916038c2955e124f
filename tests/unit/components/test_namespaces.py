"""Namespaces and Tenants: the objects that a teardown deletes, and those that the engine retains."""

import pulumi

from tests.unit.components.declare import declare
from tests.unit.make import make_volume
from trainstack.components.namespaces import Namespaces
from trainstack.components.tenants import Tenants
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.storage import Storage
from trainstack.settings.sections.tenants import Team
from trainstack.stack_objects.stack_objects import StackObjects


def test_a_namespace_with_a_retained_volume_is_retained() -> None:
    """A hook deletes it if it is empty; the engine would delete the volume with it."""

    def component(opts: pulumi.ResourceOptions) -> Namespaces:
        names = (Namespace(name="research"), Namespace(name="speech"))
        volume = make_volume(namespace="research", retain=True)
        environment, storage = Environment(namespaces=names), Storage(volumes=(volume,))
        settings = Settings(stack="dev", environment=environment, storage=storage)
        return Namespaces("namespaces", StackObjects(settings).namespaces, opts)

    found = declare(component, with_teardown=True)
    assert found["Namespaces namespaces"].type == "trainstack:platform:Namespaces"
    assert found["Namespaces namespaces"].outputs == {"names": ["research", "speech"]}
    assert found["Namespace research"].options["retainOnDelete"] is True
    assert found["Namespace research"].hooks == {"before_delete": ["teardown-namespace"]}
    assert found["Namespace speech"].options["retainOnDelete"] is False
    assert found["Namespace speech"].options["customTimeouts"] == {"delete": "3m"}
    assert found["Namespace speech"].hooks == {"before_delete": ["teardown-deletion"]}
    assert found["NetworkPolicy speech/trainstack-isolated"].options["deleteBeforeReplace"] is True


def test_network_policies_follow_their_namespace() -> None:
    """Both are children of the component."""
    found = declare(lambda opts: Namespaces("namespaces", [{"name": "speech"}], opts))
    policies = [found[f"NetworkPolicy speech/trainstack-{name}"] for name in ("isolated", "replicas")]
    assert [policy.parent for policy in policies] == ["namespaces", "namespaces"]
    assert [policy.dependencies for policy in policies] == [["speech"], ["speech"]]


def test_a_team_has_a_role_a_binding_and_an_account() -> None:
    """Only a team with `serviceAccount` has an account."""
    teams = (
        Team(name="vision", namespace="vision", groups=("ml",), service_account="ci"),
        Team(name="speech", namespace="speech", groups=("ml",)),
    )
    found = declare(lambda opts: Tenants("tenants", teams, opts))
    assert found["Tenants tenants"].type == "trainstack:platform:Tenants"
    assert found["Tenants tenants"].outputs == {"teams": ["vision", "speech"]}
    assert {registration.parent for key, registration in found.items() if key != "Tenants tenants"} == {"tenants"}
    assert [key for key in found if key.startswith("ServiceAccount ")] == ["ServiceAccount vision/ci"]
    for kind in ("Role", "RoleBinding"):
        names = [key.partition(" ")[2] for key in found if key.startswith(f"{kind} ")]
        assert {name.partition("/")[0] for name in names} == {"vision", "speech"}
