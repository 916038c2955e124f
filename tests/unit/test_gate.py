"""What a stack registers before its objects, by Pulumi's mocks: the state's identity, and the cluster's proof."""

from typing import NoReturn

import pulumi
import pytest

from tests.registrations.recorder import Echo, RecordingMonitor, Registration, engine
from tests.unit.environments import HERE, OWN
from trainstack.components.cluster import mark_and_order, prove, remember
from trainstack.components.objects import Object
from trainstack.guards.cluster_identity import CA, Cluster
from trainstack.objects.labels import FIELD_MANAGER, STATE
from trainstack.runs.recorded import StateResource
from trainstack.stacks.engine_state import own_state


@pytest.fixture
def monitor() -> RecordingMonitor:
    """Keeps what is registered or read; the provider reaches the cluster that the program read."""
    return RecordingMonitor(Echo({"kube-system": "here"}), "lab")


@pytest.fixture
def elsewhere() -> RecordingMonitor:
    """The provider reaches another cluster."""
    return RecordingMonitor(Echo({"kube-system": "elsewhere"}), "lab")


def refuse(message: str) -> NoReturn:
    """End the program as the stacks do, without a command that waits for the exit code."""
    raise pulumi.RunError(message)


def declare(monitor: RecordingMonitor, here: Cluster = HERE) -> None:
    """Run a program with one object, and the definitions of one release, to its end."""

    def program() -> None:
        known = remember(here, OWN, "lab", "owner", expected=False, refuse=refuse)
        opts = pulumi.ResourceOptions(depends_on=[known])
        provider = pulumi.ProviderResource("kubernetes", "cluster", {}, opts)
        proof = prove(provider, "cluster", here, refuse=refuse)
        mark_and_order(OWN, known, [proof] if proof else [])
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "lab", "annotations": {"kept": "yes"}},
        }
        Object(manifest, pulumi.ResourceOptions(provider=provider))
        pulumi.Stash("kueue-definitions", input={"definitions": {}})

    with engine(monitor):
        pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]  # the SDK gives it no types


def seen(monitor: RecordingMonitor) -> dict[str, Registration]:
    """What was registered or read, by name, in the order of arrival."""
    return {registration.name: registration for registration in monitor.recorded}


def test_every_object_bears_the_identity_of_the_state(monitor: RecordingMonitor) -> None:
    """And comes after the provider's read, which is no object of ours."""
    declare(monitor)
    registered = seen(monitor)
    assert registered["state-identity"].inputs == {"input": OWN}
    assert registered["lab/x"].inputs["metadata"]["annotations"][STATE] == OWN
    assert registered["lab/x"].inputs["metadata"]["annotations"][FIELD_MANAGER] == f"trainstack-{OWN}"
    assert registered["lab/x"].inputs["metadata"]["annotations"]["kept"] == "yes"
    read = registered["cluster-identity"]
    assert (read.type, read.read, read.options["id"]) == ("kubernetes:core/v1:Namespace", True, "kube-system")
    assert STATE not in read.inputs["metadata"].get("annotations", {})
    names = list(registered)
    assert names.index("state-identity") < names.index("cluster-of-owner") < names.index("cluster-identity")
    assert {*names[-2:]} == {"lab/x", "kueue-definitions"}


def test_definitions_are_applied_after_both_clusters_are_known_to_be_the_same(monitor: RecordingMonitor) -> None:
    """A hook applies them, so their resource has no provider that would depend on it."""
    declare(monitor)
    assert seen(monitor)["kueue-definitions"].dependencies == ["cluster-identity", "cluster-of-owner"]
    assert seen(monitor)["kueue-definitions"].inputs == {"input": {"definitions": {}}}


def test_the_namespace_that_is_read_is_not_held_by_the_state(monitor: RecordingMonitor) -> None:
    """The engine gives its type, name and outputs, and not that it is external."""
    declare(monitor)
    state = [StateResource(found.type, "", found.name, found.inputs) for found in monitor.recorded]
    assert own_state(state).held == {("ConfigMap", "lab", "x")}


def test_on_another_cluster_no_object_is_registered(elsewhere: RecordingMonitor) -> None:
    """The provider reached another one than the program read."""
    with pytest.raises(pulumi.RunError, match="the Kubernetes provider reached another cluster"):
        declare(elsewhere)
    assert "cluster-identity" in seen(elsewhere)
    assert not {"lab/x", "kueue-definitions"} & {*seen(elsewhere)}


def test_a_tenant_without_a_readable_namespace(elsewhere: RecordingMonitor) -> None:
    """Nothing can be compared, and nothing is read."""
    declare(elsewhere, Cluster({CA: "digest"}, "lab", "https://lab:6443"))
    assert "cluster-identity" not in seen(elsewhere)
    assert "lab/x" in seen(elsewhere)
    assert seen(elsewhere)["kueue-definitions"].dependencies == ["cluster-of-owner"]
