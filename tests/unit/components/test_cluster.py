"""Registrations of a stack before its objects, by Pulumi's mocks: the state's identity, and the cluster's proof."""

from typing import NoReturn

import pulumi
import pytest

from tests.registrations.recorder import Echo, RecordingMonitor, Registration, engine
from tests.unit.environments import HERE, OWN
from trainstack.components.cluster import mark_with_state, prove_cluster, remember_cluster
from trainstack.components.objects import Object
from trainstack.guards.cluster_identity import CA, ClusterIdentity
from trainstack.objects.labels import FIELD_MANAGER, STATE
from trainstack.runs.recorded_launches import StateResource
from trainstack.stacks.engine_state import own_state


@pytest.fixture
def monitor() -> RecordingMonitor:
    """Provide a monitor that records registrations and reads; the provider reaches the program's cluster."""
    return RecordingMonitor(Echo({"kube-system": "here"}), "lab")


@pytest.fixture
def elsewhere() -> RecordingMonitor:
    """Let the provider reach another cluster."""
    return RecordingMonitor(Echo({"kube-system": "elsewhere"}), "lab")


def refuse(message: str) -> NoReturn:
    """End the program as the stacks do, without a command that waits for the exit code."""
    raise pulumi.RunError(message)


def declare(monitor: RecordingMonitor, cluster: ClusterIdentity = HERE) -> None:
    """Run a program with one object and the definitions of one release."""

    def program() -> None:
        known = remember_cluster(cluster, OWN, "lab", "owner", is_expected=False, refuse=refuse)
        opts = pulumi.ResourceOptions(depends_on=[known])
        provider = pulumi.ProviderResource("kubernetes", "cluster", {}, opts)
        proof = prove_cluster(provider, "cluster", cluster, refuse=refuse)
        mark_with_state(OWN)
        gates = [known, *([proof] if proof else [])]
        layer = pulumi.ComponentResource("trainstack:test:Layer", "layer", {}, pulumi.ResourceOptions(depends_on=gates))
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "lab", "annotations": {"kept": "yes"}},
        }
        Object(manifest, pulumi.ResourceOptions(parent=layer, provider=provider))
        pulumi.Stash("kueue-definitions", input={"definitions": {}}, opts=pulumi.ResourceOptions(parent=layer))

    with engine(monitor):
        pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]  # the SDK gives it no types


def records(monitor: RecordingMonitor) -> dict[str, Registration]:
    """Return the registrations and reads by name, in their order."""
    return {registration.name: registration for registration in monitor.recorded}


def test_every_object_has_the_identity_of_the_state(monitor: RecordingMonitor) -> None:
    """It follows the read of the provider, which is not our object."""
    declare(monitor)
    registered = records(monitor)
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


def test_a_component_follows_the_proof_that_both_clusters_are_the_same(monitor: RecordingMonitor) -> None:
    """Its objects follow the component, and so do definitions, which have no provider: a hook applies them."""
    declare(monitor)
    assert records(monitor)["layer"].dependencies == ["cluster-identity", "cluster-of-owner"]
    assert [records(monitor)[name].parent for name in ("lab/x", "kueue-definitions")] == ["layer", "layer"]
    assert [records(monitor)[name].dependencies for name in ("lab/x", "kueue-definitions")] == [[], []]
    assert records(monitor)["kueue-definitions"].inputs == {"input": {"definitions": {}}}


def test_the_namespace_that_is_read_is_not_held_by_the_state(monitor: RecordingMonitor) -> None:
    """The engine gets its type, name and outputs, and not that it is external."""
    declare(monitor)
    state = [StateResource(found.type, "", found.name, found.inputs) for found in monitor.recorded]
    assert own_state(state).object_identities == {("ConfigMap", "lab", "x")}


def test_on_another_cluster_no_object_is_registered(elsewhere: RecordingMonitor) -> None:
    """The provider reached another one than the program read."""
    with pytest.raises(pulumi.RunError, match="the Kubernetes provider reached another cluster"):
        declare(elsewhere)
    assert "cluster-identity" in records(elsewhere)
    assert not {"layer", "lab/x", "kueue-definitions"} & {*records(elsewhere)}


def test_a_tenant_without_a_readable_namespace(elsewhere: RecordingMonitor) -> None:
    """Nothing is compared, and nothing is read."""
    declare(elsewhere, ClusterIdentity({CA: "digest"}, "lab", "https://lab:6443"))
    assert "cluster-identity" not in records(elsewhere)
    assert "lab/x" in records(elsewhere)
    assert "kueue-definitions" in records(elsewhere)
    assert records(elsewhere)["layer"].dependencies == ["cluster-of-owner"]
