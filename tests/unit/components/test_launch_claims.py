"""The effects of the engine's calls of a launch's hooks on its claim, with a fake of the API server."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest

from trainstack.components import launch_claims
from trainstack.components.await_deletion import await_deletion
from trainstack.components.launch_claims import LaunchClaim, claim_hooks
from trainstack.live.client import Answer, ClusterError, SharedClients
from trainstack.objects.labels import CLAIM, LAUNCH, LEDGER, STACK, with_state
from trainstack.runs import ledgers
from trainstack.runs.launches import LATE_SECONDS

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
NOW = datetime(2026, 1, 2, tzinfo=UTC)
TAKEN = {"uid": "u1", "resourceVersion": "7"}


REFUSED = (
    'resource "urn" was not successfully created by the Kubernetes API server: jobs.batch "a-1-0" is forbidden: no'
)
LOST = 'resource "urn" was not successfully created by the Kubernetes API server: Patch "https://lab": EOF'


class Cluster:
    """A fake that answers all writes with one status, has one ledger, and lists launches."""

    def __init__(self) -> None:
        self.status, self.reachable = 201, True
        self.launches: list[str] = []
        self.ledger: dict[str, Any] = {}
        self.stored: Mapping[str, Any] | None = None
        """The launch as a dry run returns it; None: the dry run is refused."""
        self.writes: list[tuple[str, str, Mapping[str, Any]]] = []
        self.waits: list[float] = []

    async def send(self, _: object, verb: str, path: str, body: Mapping[str, Any], __: str) -> tuple[int, str]:
        """Record the write; answer a dry run."""
        if path.endswith("?dryRun=All"):
            return (201, json.dumps(self.stored)) if self.stored is not None else (403, "no")
        self.writes.append((verb, path, body))
        return self.status, json.dumps({"metadata": TAKEN, "message": "no"})

    async def get(self, _: object, path: str, **__: bool) -> Answer:
        """Return the ledger, or list the launches."""
        if not self.reachable:
            raise ClusterError("no answer")
        if "/configmaps/" in path:
            return Answer(200, self.ledger)
        assert path.startswith("/apis/batch/v1/namespaces/lab/jobs?labelSelector=")
        return Answer(200, {"items": [{"metadata": {"name": name}} for name in self.launches] or None})

    async def wait(self, seconds: float) -> None:
        """Do not wait."""
        self.waits.append(seconds)

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
    monkeypatch.setattr(launch_claims, "asyncio", SimpleNamespace(sleep=fake.wait))
    # There is no engine to register them with.
    monkeypatch.setattr(pulumi, "ResourceHook", lambda _, callback: callback)
    monkeypatch.setattr(pulumi, "ErrorHook", lambda _, callback: callback)
    return fake


class Hooks:
    """The hooks of one launch, to be called as the engine does."""

    def __init__(self, claim: LaunchClaim) -> None:
        self.claim = claim
        self.made: Any = claim_hooks("runs", [claim], SharedClients(), None)

    def take(self) -> None:
        """Run the hook before the creation of the launch."""
        (hook,) = self.made.launch.before_create
        _wait(hook(created()))

    def failed(self, operation: str = "create", error: str = REFUSED) -> bool:
        """Run the hook after a failed operation; return whether it asks for a retry."""
        (hook,) = self.made.launch.on_error
        args = pulumi.ErrorHookArgs(urn="", id="", name=NAME, type="", failed_operation=operation, errors=[error])
        return bool(_wait(hook(args)))

    def record(self) -> None:
        """Run the hook before the ledger is written."""
        assert self.made.ledger.before_create == self.made.ledger.before_update
        (hook,) = self.made.ledger.before_create
        _wait(hook(created("lab/run-a-1")))


def _wait(result: Awaitable[Any]) -> Any:
    async def ended() -> Any:
        return await result

    return asyncio.run(ended())


def hooks(
    launch: Mapping[str, Any] = NAMED, version: str | None = None
) -> tuple[Callable[[], None], Callable[[str], bool]]:
    """Return the two hooks of a launch."""
    made = Hooks(make_claim(launch, version))
    return made.take, made.failed


def make_claim(launch: Mapping[str, Any] = NAMED, version: str | None = None, **changes: Any) -> LaunchClaim:
    """Return the claim of the launch `a-1-0`."""
    return LaunchClaim(launch=launch, ledger=RECORD, ledger_version=version, **changes)


def make_earlier(age_seconds: float | None, ttl_seconds: int | None = None) -> ledgers.Claim:
    """Return the claim that an interrupted `up` left of the launch `a-1-0`."""
    spec = {} if ttl_seconds is None else {"ttlSecondsAfterFinished": ttl_seconds}
    ledger = ledgers.Ledger(
        run_id="a-1", workload="a", namespace="lab", attempt=1, launch_name="a-1-0", launch={**NAMED, "spec": spec}
    )
    read = None if age_seconds is None else NOW + timedelta(seconds=age_seconds)
    return ledgers.Claim(ledger, NOW, read)


def made_hooks(name: str, claims: list[LaunchClaim]) -> Any:
    """Return the hooks of launches."""
    return claim_hooks(name, claims, SharedClients(), None).launch


def created(name: str = NAME) -> pulumi.ResourceHookArgs:
    """Return the arguments of a hook before the engine creates the launch of this Pulumi name."""
    return pulumi.ResourceHookArgs(urn="", id="", name=name, type="")


def test_a_launch_is_claimed_while_all_threads_of_the_loop_wait_for_launches(cluster: Cluster) -> None:
    """The engine's SDK registers resources in those threads, and each waits until the resource's hooks have run."""
    binding: Any = made_hooks("runs", [make_claim()])
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
    other = LaunchClaim(launch={**NAMED, "metadata": metadata}, ledger=record, ledger_version=None)
    binding: Any = made_hooks("runs", [make_claim(), other])
    (take,), (release,) = binding.before_create, binding.on_error

    async def refused(name: str) -> None:
        await release(
            pulumi.ErrorHookArgs(urn="", id="", name=name, type="", failed_operation="create", errors=[REFUSED])
        )

    asyncio.run(take(created("lab/b-1-0")))
    asyncio.run(refused(NAME))
    asyncio.run(refused("lab/b-1-0"))
    claim = "/api/v1/namespaces/lab/configmaps/run-b-1"
    assert [(verb, path) for verb, path, _ in cluster.writes if verb == "DELETE"] == [("DELETE", claim)]


def test_a_launch_that_was_made_keeps_its_claim(cluster: Cluster) -> None:
    """The engine reports a launch as failed also if it could not wait for it."""
    cluster.launches = ["a-1-0"]
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


def test_a_launch_without_an_answer_keeps_its_claim(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Its request may take effect later, when a list no longer shows that it did not. The message says what to do."""
    made = Hooks(make_claim())
    made.take()
    assert made.failed(error=LOST) is False
    assert cluster.preconditions() == []
    assert "did not refuse Job lab/a-1-0, so it may still appear, and its claim (ConfigMap lab/run-a-1) stays" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("age_seconds", [0, 30, LATE_SECONDS, 10**6, -600, None])
def test_an_earlier_claim_is_taken_over_once_its_request_can_no_longer_take_effect(
    cluster: Cluster, age_seconds: float | None
) -> None:
    """The age is by the API server's clock. If it is unknown or impossible, the whole time is waited for."""
    Hooks(make_claim(version="5", unconfirmed_claims=(make_earlier(age_seconds),))).take()
    wanted = max(LATE_SECONDS - max(age_seconds or 0, 0), 0)
    assert sum(cluster.waits) == pytest.approx(wanted, abs=1)
    assert [verb for verb, _, _ in cluster.writes] == ["PATCH"]


def test_of_several_earlier_claims_the_latest_counts(cluster: Cluster) -> None:
    """Trials of a batch may have been claimed one by one."""
    Hooks(make_claim(version="5", unconfirmed_claims=(make_earlier(10**6), make_earlier(30)))).take()
    assert cluster.waits == [pytest.approx(LATE_SECONDS - 30, abs=1)]


def test_a_launch_that_appears_late_is_not_launched_again(cluster: Cluster) -> None:
    """The decision did not see it."""
    cluster.launches = ["a-1-0"]
    with pytest.raises(ClusterError, match="a-1-0 of a-1, which an earlier `up` requested, has appeared"):
        Hooks(make_claim(version="5", unconfirmed_claims=(make_earlier(30),))).take()
    assert cluster.writes == []


@pytest.mark.parametrize(
    ("stored", "launched"),
    [(None, True), ({"spec": {}}, True), ({"spec": {"ttlSecondsAfterFinished": 600}}, False)],
    ids=["unknown", "none", "added"],
)
def test_a_ttl_that_the_cluster_adds_may_have_removed_a_launch(
    cluster: Cluster, stored: Mapping[str, Any] | None, launched: bool
) -> None:
    """Some clusters set one on every Job. Only what they would store shows it."""
    cluster.stored = stored
    made = Hooks(make_claim(version="5", unconfirmed_claims=(make_earlier(10**4),)))
    if launched:
        made.take()
    else:
        with pytest.raises(ClusterError, match="may have been launched, ended and removed"):
            made.take()
    assert len(cluster.writes) == launched


def test_a_launch_may_have_ended_while_its_claim_was_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had not when the cluster was read: a long step of the change came in between."""
    ticks = iter([0.0, *[100.0] * 9])
    monkeypatch.setattr(launch_claims, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    with pytest.raises(ClusterError, match="may have been launched, ended and removed"):
        Hooks(make_claim(version="5", unconfirmed_claims=(make_earlier(30, ttl_seconds=120),))).take()


def test_a_live_launch_is_not_created_again(cluster: Cluster) -> None:
    """The engine replaces it for `--replace` or a taint; its ledger stays complete."""
    cluster.launches = ["a-1-0"]
    with pytest.raises(ClusterError, match="Job lab/a-1-0 is the launch of run a-1; it is not created a second time"):
        Hooks(make_claim(version="5", is_live=True, is_recorded=True)).take()
    assert cluster.writes == []


def test_a_live_launch_is_taken_over_without_a_claim(cluster: Cluster) -> None:
    """The state was lost. The launch may end and be removed before it is taken over."""
    cluster.launches = ["a-1-0"]
    made = Hooks(make_claim(version="5", is_live=True))
    made.take()
    made.record()
    assert cluster.writes == []
    cluster.launches = []
    with pytest.raises(ClusterError, match="was removed while this `up` ran"):
        made.take()


def test_a_ledger_is_written_after_the_creation_of_its_launch_only(cluster: Cluster) -> None:
    """`--exclude` and `--target` may leave the launch out, and its creation may fail."""
    made = Hooks(make_claim())
    with pytest.raises(ClusterError, match="run-a-1 would record the launch of a-1, but this change has not created"):
        made.record()
    made.take()
    made.record()
    made.failed(error=LOST)
    with pytest.raises(ClusterError, match="--exclude-dependents"):
        made.record()


@pytest.mark.parametrize("earlier", [(), (make_earlier(10**6),)], ids=["of a launch", "of a claim"])
def test_a_refused_launch_leaves_the_earlier_ledger(cluster: Cluster, earlier: tuple[ledgers.Claim, ...]) -> None:
    """The claim has replaced the ledger of an earlier launch, which is restored, or a claim, which is deleted."""
    data = {"run": "a-1", "launchName": "a-1-9", "companions": "[]"}
    before = {**data, **({} if earlier else {"launched": "true"})}
    cluster.ledger = {"metadata": {"annotations": {CLAIM: "before"}}, "data": before}
    cluster.status = 200
    made = Hooks(make_claim(version="5", unconfirmed_claims=earlier))
    made.take()
    (_, _, claimed) = cluster.writes[0]
    assert claimed["data"] == {"run": "a-1", "launchName": None, "companions": None} | (
        {} if earlier else {"launched": None}
    )
    made.failed()
    verb, path, body = cluster.writes[-1]
    if earlier:
        assert (verb, body) == ("DELETE", {"preconditions": TAKEN})
    else:
        assert (verb, path.partition("?")[0]) == ("PATCH", "/api/v1/namespaces/lab/configmaps/run-a-1")
        assert body == {"metadata": {"annotations": {CLAIM: "before"}, "resourceVersion": "7"}, "data": before}


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
    claimed = pulumi.ResourceOptions(hooks=made_hooks("runs", [make_claim()]))
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
