"""What a stack registers before its objects, by Pulumi's mocks: the state's identity, and the cluster's proof."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks

from checks.identity import CA, Cluster
from checks.recorded import StateResource
from components.cluster import mark_and_order, prove, remember
from components.objects import Object
from manifests.labels import FIELD_MANAGER, STATE
from stacks.engine_state import own_state

HERE = Cluster({"kube-system": "here"}, "lab", "https://lab:6443")
OWN = "a" * 32


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:
    """The SDK takes the thread's event loop, which another test may have ended."""
    loop = asyncio.new_event_loop()
    # Outputs of a program that failed are collected unread. asyncio would report each in the middle of another test,
    # and print its traceback by the parser that this other test may be using, which CPython 3.11 cannot bear.
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


class Registered(mocks.Mocks):
    """Keeps what is registered or read; a namespace has a UID of the provider's cluster."""

    def __init__(self, uid: str) -> None:
        self.uid, self.seen = uid, dict[str, dict[str, Any]]()

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        """A read has the id that was asked for."""
        self.seen[args.name] = {"type": args.typ, "inputs": args.inputs, "read": args.resource_id}
        if args.resource_id:
            return args.resource_id, {**args.inputs, "metadata": {"name": args.resource_id, "uid": self.uid}}
        return f"{args.name}-id", {**args.inputs, "output": args.inputs.get("input")}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        """Nothing is called."""
        raise AssertionError(args.token)


def declare(registered: Registered, here: Cluster = HERE) -> None:
    """Run a program with one object to its end."""
    mocks.set_mocks(registered, preview=False)
    # The root is the process's; transformations of another test are on it.
    root = pulumi.runtime.get_root_resource()
    assert root is not None
    root._transformations = []

    def program() -> None:
        known = remember(here, OWN, "lab", "owner", expected=False)
        opts = pulumi.ResourceOptions(depends_on=[known])
        provider = pulumi.ProviderResource("kubernetes", "cluster", {}, opts)
        proof = prove(provider, "cluster", here)
        mark_and_order(OWN, [proof] if proof else [])
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "lab", "annotations": {"kept": "yes"}},
        }
        Object(manifest, pulumi.ResourceOptions(provider=provider))

    pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]  # the SDK gives it no types


def test_every_object_bears_the_identity_of_the_state() -> None:
    """And comes after the provider's read, which is no object of ours."""
    registered = Registered("here")
    declare(registered)
    assert registered.seen["state-identity"]["inputs"] == {"input": OWN}
    assert registered.seen["lab/x"]["inputs"]["metadata"]["annotations"][STATE] == OWN
    assert registered.seen["lab/x"]["inputs"]["metadata"]["annotations"][FIELD_MANAGER] == f"trainstack-{OWN}"
    assert registered.seen["lab/x"]["inputs"]["metadata"]["annotations"]["kept"] == "yes"
    read = registered.seen["cluster-identity"]
    assert (read["type"], read["read"]) == ("kubernetes:core/v1:Namespace", "kube-system")
    assert STATE not in read["inputs"]["metadata"].get("annotations", {})
    names = list(registered.seen)
    assert names.index("state-identity") < names.index("cluster-of-owner") < names.index("cluster-identity")
    assert names[-1] == "lab/x"


def test_the_namespace_that_is_read_is_not_held_by_the_state() -> None:
    """The engine gives its type, name and outputs, and not that it is external."""
    registered = Registered("here")
    declare(registered)
    state = [StateResource(each["type"], "", name, each["inputs"]) for name, each in registered.seen.items()]
    assert own_state(state).held == {("ConfigMap", "lab", "x")}


def test_on_another_cluster_no_object_is_registered() -> None:
    """The provider reached another one than the program read."""
    registered = Registered("elsewhere")
    with pytest.raises(pulumi.RunError, match="the Kubernetes provider reached another cluster"):
        declare(registered)
    assert "cluster-identity" in registered.seen
    assert "lab/x" not in registered.seen


def test_a_tenant_without_a_readable_namespace() -> None:
    """Nothing can be compared, and nothing is read."""
    registered = Registered("elsewhere")
    declare(registered, Cluster({CA: "digest"}, "lab", "https://lab:6443"))
    assert "cluster-identity" not in registered.seen
    assert "lab/x" in registered.seen
