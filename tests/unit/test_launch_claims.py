"""The effects of the engine's calls of a launch's hooks on its claim, with a fake of the API server."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulumi
import pytest

from trainstack.components import launch_claims
from trainstack.components.await_deletion import await_deletion
from trainstack.components.launch_claims import Claim, claim_hooks
from trainstack.live.client import Answer, ClusterError, SharedClients
from trainstack.objects.labels import LAUNCH, LEDGER, STACK, with_state

RECORD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": with_state({"name": "run-a-1", "namespace": "lab", "labels": {LEDGER: "run", STACK: "dev"}}, "a" * 32),
    "data": {"run": "a-1", "launched": "true"},
}
NAMED: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "a-1-0", "namespace": "lab", "labels": {LAUNCH: "a-1-0"}},
}
GENERATED = {**NAMED, "metadata": {"generateName": "a-", "namespace": "lab", "labels": {LAUNCH: "a-1-0"}}}
NAME = "lab/a-1-0"
TAKEN = {"uid": "u1", "resourceVersion": "7"}


class Cluster:
    """A fake that answers all writes with one status, and a list of launches."""

    def __init__(self, status: int = 201, launches: tuple[str, ...] = ()) -> None:
        self.status, self.launches, self.reachable = status, launches, True
        self.writes: list[tuple[str, str, Mapping[str, Any]]] = []

    async def send(self, _: object, verb: str, path: str, body: Mapping[str, Any], __: str) -> tuple[int, str]:
        """Record the write."""
        self.writes.append((verb, path, body))
        return self.status, json.dumps({"metadata": TAKEN, "message": "no"})

    async def get(self, _: object, path: str, **__: bool) -> Answer:
        """List the launches."""
        if not self.reachable:
            raise ClusterError("no answer")
        assert path.startswith("/apis/batch/v1/namespaces/lab/jobs?labelSelector=")
        return Answer(200, {"items": [{"metadata": {"name": name}} for name in self.launches] or None})

    def preconditions(self) -> list[Mapping[str, Any]]:
        """Return the preconditions of the deletions."""
        return [body["preconditions"] for verb, _, body in self.writes if verb == "DELETE"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Provide a cluster that accepts every claim and has no launch."""
    fake = Cluster()

    async def connect(_: object) -> None:
        pass

    monkeypatch.setattr(launch_claims, "connect", connect)
    monkeypatch.setattr(launch_claims, "send", fake.send)
    monkeypatch.setattr(launch_claims, "get", fake.get)
    # There is no engine to register them with.
    monkeypatch.setattr(pulumi, "ResourceHook", lambda _, callback: callback)
    monkeypatch.setattr(pulumi, "ErrorHook", lambda _, callback: callback)
    return fake


def hooks(
    launch: Mapping[str, Any] = NAMED, version: str | None = None
) -> tuple[Callable[[], None], Callable[[str], bool]]:
    """Return the two hooks, to be called as the engine does."""
    binding: Any = claim_hooks("runs", [make_claim(launch, version)], SharedClients(), None)
    (take,), (release,) = binding.before_create, binding.on_error

    def wait(result: Awaitable[Any]) -> Any:
        async def ended() -> Any:
            return await result

        return asyncio.run(ended())

    def failed(operation: str) -> bool:
        args = pulumi.ErrorHookArgs(urn="", id="", name=NAME, type="", failed_operation=operation, errors=["refused"])
        return bool(wait(release(args)))

    return lambda: wait(take(created())), failed


def make_claim(launch: Mapping[str, Any] = NAMED, version: str | None = None) -> Claim:
    """Return the claim of the launch `a-1-0`."""
    return Claim(launch=launch, ledger=RECORD, version=version)


def created(name: str = NAME) -> pulumi.ResourceHookArgs:
    """Return the arguments of a hook before the engine creates the launch of this Pulumi name."""
    return pulumi.ResourceHookArgs(urn="", id="", name=name, type="")


def test_a_launch_is_claimed_while_all_threads_of_the_loop_wait_for_launches(cluster: Cluster) -> None:
    """The engine's SDK registers resources in those threads, and each waits until the resource's hooks have run."""
    binding: Any = claim_hooks("runs", [make_claim()], SharedClients(), None)
    (take,), registered = binding.before_create, threading.Event()

    async def launch() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        registration = loop.run_in_executor(None, registered.wait)
        try:
            await asyncio.wait_for(take(created()), 10)
        finally:
            registered.set()
            await registration

    asyncio.run(launch())
    assert [verb for verb, _, _ in cluster.writes] == ["POST"]


@pytest.mark.parametrize("launch", [NAMED, GENERATED], ids=["named", "generated"])
def test_the_claim_of_a_refused_launch_is_deleted_as_it_was_taken(cluster: Cluster, launch: Mapping[str, Any]) -> None:
    """The API server may also choose the name of the launch."""
    take, failed = hooks(launch)
    take()
    assert failed("create") is False
    assert cluster.preconditions() == [TAKEN]


def test_launches_that_share_their_hooks_have_claims_of_their_own(cluster: Cluster) -> None:
    """The engine passes the name of the launch that it creates."""
    metadata = {"name": "b-1-0", "namespace": "lab", "labels": {LAUNCH: "b-1-0"}}
    record = {**RECORD, "metadata": {**RECORD["metadata"], "name": "run-b-1"}}
    other = Claim(launch={**NAMED, "metadata": metadata}, ledger=record, version=None)
    binding: Any = claim_hooks("runs", [make_claim(), other], SharedClients(), None)
    (take,), (release,) = binding.before_create, binding.on_error

    async def refused(name: str) -> None:
        await release(
            pulumi.ErrorHookArgs(urn="", id="", name=name, type="", failed_operation="create", errors=["refused"])
        )

    asyncio.run(take(created("lab/b-1-0")))
    asyncio.run(refused(NAME))
    asyncio.run(refused("lab/b-1-0"))
    claim = "/api/v1/namespaces/lab/configmaps/run-b-1"
    assert [(verb, path) for verb, path, _ in cluster.writes if verb == "DELETE"] == [("DELETE", claim)]


def test_a_launch_that_was_made_keeps_its_claim(cluster: Cluster) -> None:
    """The engine reports a launch as failed also if it could not wait for it."""
    cluster.launches = ("a-1-0",)
    take, failed = hooks()
    take()
    assert failed("create") is False
    assert cluster.preconditions() == []


def test_only_who_took_a_claim_gives_it_up(cluster: Cluster) -> None:
    """A preview takes none, and its refused dry run calls the hook too: the claim belongs to another `up`."""
    _, failed = hooks()
    assert failed("create") is False
    assert cluster.writes == []


def test_a_failed_edit_or_deletion_keeps_the_claim(cluster: Cluster) -> None:
    """The launch exists."""
    take, failed = hooks()
    take()
    assert [failed("update"), failed("delete")] == [False, False]
    assert cluster.preconditions() == []


def test_an_unreachable_cluster_does_not_hide_the_refusal(cluster: Cluster) -> None:
    """The engine reports the error of the hook instead of the launch's."""
    take, failed = hooks()
    take()
    cluster.reachable = False
    assert failed("create") is False


def test_a_claim_in_an_earlier_ledger_s_place_stays(cluster: Cluster) -> None:
    """The claim has already replaced the earlier ledger."""
    cluster.status = 200
    take, failed = hooks(version="5")
    take()
    assert failed("create") is False
    assert cluster.preconditions() == []


@pytest.mark.parametrize(
    ("status", "version", "message"),
    [
        (409, None, "another `up` is claiming the launch"),
        (409, "5", "another `up` is claiming the launch"),
        (404, "5", "another `up` is claiming the launch"),
        (404, None, "cannot be claimed (404: no)"),
        (403, "5", "cannot be claimed (403: no)"),
    ],
)
def test_another_up_is_named_only_where_the_ledger_was_written(
    cluster: Cluster, status: int, version: str | None, message: str
) -> None:
    """A new ledger is not found if its namespace is missing."""
    cluster.status = status
    take, _ = hooks(version=version)
    with pytest.raises(ClusterError) as raised:
        take()
    assert message in str(raised.value)


def test_a_ledger_that_was_not_found_by_its_labels_is_named_with_them(cluster: Cluster) -> None:
    """Its labels were removed: no other `up` ever ends."""
    cluster.status = 409
    take, _ = hooks()
    with pytest.raises(ClusterError, match=f"restore {LEDGER}=run and {STACK}=dev"):
        take()


def test_a_launch_is_claimed_when_its_place_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that fails leaves no claim: the engine calls no error hook before the launch."""
    transformations: list[Any] = []
    monkeypatch.setattr(pulumi.runtime, "register_stack_transformation", transformations.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setattr(pulumi, "ResourceHook", lambda name, _: name)
    monkeypatch.setattr(pulumi, "ErrorHook", lambda name, _: name)
    await_deletion({"u0": NAMED}, lambda _: None)
    hooks = claim_hooks("runs", [make_claim()], SharedClients(), None)
    claimed = pulumi.ResourceOptions(hooks=hooks)
    props = {**NAMED, "metadata": {**NAMED["metadata"], "annotations": {}}}
    args: Any = pulumi.ResourceTransformationArgs(
        resource=None,  # type: ignore[arg-type]  # not read
        type_="kubernetes:batch/v1:Job",
        name="lab/a-1-0",
        props=props,
        opts=claimed,
    )
    result = transformations[0](args)
    assert result.opts.hooks.before_create == ["kubernetes:batch/v1:Job::lab/a-1-0-is-gone", "runs-claim"]
    assert result.opts.hooks.on_error == ["runs-release"]
    assert result.opts.delete_before_replace
