"""The course of one configuration: its runs reach each state, are checked, and `up` runs again."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.cluster.lab import true_conditions
from tests.cluster.people import make_job
from tests.cluster.project import eventually
from tests.faults.configurations import LATE
from tests.faults.configured_stacks import Body, ConfiguredStack, NamespaceView
from tests.faults.stack_configs import stack_config

SECONDS = 400
"""The timeout for a state, on a busy machine."""
POLL_SECONDS = 2
"""Seconds between polls: four configurations poll at the same time."""
RIVAL = "rival"
UNMATCHED_NODE_LABEL = {"again.example.org/nowhere": "yes"}
"""A label that no node has: the rival takes quota, but no cpu."""


def run_course(stack: ConfiguredStack) -> None:
    """Bring the runs into every state, from queued to removed by a TTL; a second `up` changes nothing in any."""
    configuration = stack.configuration
    if configuration.environment == "owner":
        # The queue must exist before the rival and the runs.
        _up(stack)
    _create_rival(stack)
    stack.project.write_stack(configuration.name, stack_config(configuration))
    _up(stack)
    _await_state(stack, "queued", _queued)
    _assert_up_changes_nothing(stack)

    _delete_rival(stack)
    _await_state(stack, "admitted, in part, and running", _admitted)
    _assert_up_changes_nothing(stack)
    stopped = {share.name: stack.count_marks(share.name, "begun") for share in configuration.shares}

    _create_rival(stack)
    _await_state(stack, "preempted", _preempted)
    _assert_up_changes_nothing(stack)

    _delete_rival(stack)
    _label_node(stack, "yes")
    (stack.volume / "go").touch()
    _await_state(stack, "completed, and the brief one removed by its TTL", _completed)
    assert_trained_once(stack, stopped)
    _assert_nothing_is_launched(stack, settled=True)
    _assert_up_changes_nothing(stack)

    _expire(stack)
    _assert_nothing_is_launched(stack, settled=True)
    assert stack.view().launches == []
    assert_trained_once(stack, stopped)


def clean_up(stack: ConfiguredStack) -> None:
    """Remove the stack in any state."""
    _delete_rival(stack)
    _label_node(stack, "")
    stack.project.take_down()


def _up(stack: ConfiguredStack, *words: str) -> str:
    done = stack.project.up(*words)
    assert done.code == 0, f"{stack.configuration.description}: {done.text}"
    return done.text


def _assert_up_changes_nothing(stack: ConfiguredStack) -> None:
    """Check that a second `up --refresh` finds no changes and keeps the launches."""
    before = stack.uids()
    _up(stack, "--refresh", "--expect-no-changes")
    assert stack.uids() == before, stack.configuration.description


def _assert_nothing_is_launched(stack: ConfiguredStack, *, settled: bool) -> None:
    """Check that `up` drops the objects that a TTL removed from the state, and does not create them again."""
    before, remembered = stack.uids(), stack.ledgers()
    output = _up(stack, "--refresh")
    assert ("settled" in output) is settled, f"{stack.configuration.description}: {output}"
    assert stack.uids() == before, stack.configuration.description
    assert stack.ledgers() == remembered, stack.configuration.description


def _await_state(
    stack: ConfiguredStack, state: str, is_reached: Callable[[ConfiguredStack, NamespaceView], Any]
) -> None:
    try:
        eventually(
            f"{stack.configuration.description} is {state}",
            lambda: is_reached(stack, stack.view()),
            SECONDS,
            every=POLL_SECONDS,
        )
    except AssertionError as error:
        raise AssertionError("\n".join((str(error), *_current_state(stack, stack.view())))) from None


def _current_state(stack: ConfiguredStack, view: NamespaceView) -> Iterator[str]:
    """Yield a description of the current state, for the message of a timeout."""
    for body in view.launches:
        metadata, workload = body["metadata"], view.workloads.get(body["metadata"]["uid"], {})
        yield f"{body['kind']} {metadata['name']}: {true_conditions(body)}, its Workload: {true_conditions(workload)}"
    for share in stack.configuration.shares:
        pods = [(pod["metadata"]["name"], pod["status"]["phase"]) for pod in view.pods_of(share)]
        marks = {which: stack.count_marks(share.name, which) for which in ("begun", "ended")}
        yield f"{share.name}: pods {pods}, {marks}"


def _create_rival(stack: ConfiguredStack) -> None:
    """Create another user's Job with a high priority, which takes all of the queue's quota."""
    configuration = stack.configuration
    job = make_job(image="busybox:1.35", requests={"cpu": f"{configuration.quota}m", "memory": "16Mi"})
    labels = {"kueue.x-k8s.io/queue-name": configuration.queue, "kueue.x-k8s.io/priority-class": "high"}
    job["metadata"] = {"generateName": f"{RIVAL}-", "namespace": configuration.name, "labels": {**labels, RIVAL: "yes"}}
    pod = job["spec"]["template"]["spec"]
    pod["nodeSelector"] = UNMATCHED_NODE_LABEL
    pod["securityContext"] = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    pod["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    uid = stack.owner.create(job)["metadata"]["uid"]
    _await_state(stack, "behind a rival", lambda _, view: _held_quota(view, uid))


def _delete_rival(stack: ConfiguredStack) -> None:
    done = stack.owner.kubectl("delete", "jobs", "-n", stack.configuration.name, "-l", f"{RIVAL}=yes")
    assert done.code == 0, done.text


def _label_node(stack: ConfiguredStack, value: str) -> None:
    """Set the label that the pods of `late` require on the nodes; remove it if the value is empty."""
    word = f"{LATE}-{stack.configuration.name}"
    done = stack.owner.kubectl("label", "nodes", "--all", "--overwrite", f"{word}={value}" if value else f"{word}-")
    assert done.code == 0, done.text


def _held_quota(view: NamespaceView, uid: str) -> bool:
    """Return whether the launch with this UID has quota."""
    return "QuotaReserved" in true_conditions(view.workloads.get(uid, {}))


def _waiting(view: NamespaceView) -> list[Body]:
    """Return the Workloads of all launches if all of them wait in the queue, else an empty list."""
    launches = view.launches
    uids = {body["metadata"]["uid"] for body in launches}
    found = [body for uid, body in view.workloads.items() if uid in uids]
    count = sum(share.launch_count for share in view.configuration.shares)
    whole = len(found) == len(launches) == view.waiting == count
    stopped = all(body["spec"].get("runPolicy", body["spec"])["suspend"] for body in launches)
    return found if whole and stopped and not any(_held_quota(view, uid) for uid in uids) else []


def _queued(_: ConfiguredStack, view: NamespaceView) -> bool:
    """Return whether all wait and none was admitted before."""
    found = _waiting(view)
    return bool(found) and not any("Evicted" in true_conditions(body) for body in found)


def _preempted(_: ConfiguredStack, view: NamespaceView) -> bool:
    """Return whether all are preempted, none of their pods exist, and the parallelism is the declared one again."""
    found, partly = _waiting(view), view.configuration.partly
    if not found:
        return False
    reasons = {
        condition["reason"]
        for body in found
        for condition in body["status"]["conditions"]
        if condition["type"] == "Evicted" and condition["status"] == "True"
    }
    evicted = all("Evicted" in true_conditions(body) for body in found)
    pods = [pod for share in view.configuration.shares for pod in view.pods_of(share)]
    is_restored = view.launches_of(partly)[0]["spec"]["parallelism"] == partly.parallelism
    return is_restored and evicted and reasons == {"Preempted"} and not pods


def _admitted(stack: ConfiguredStack, view: NamespaceView) -> bool:
    """Return whether all are admitted: one partially, one with unschedulable pods, one that runs."""
    configuration = view.configuration
    mine = [view.workloads.get(body["metadata"]["uid"], {}) for body in view.launches]
    if not all("Admitted" in true_conditions(body) for body in mine):
        return False
    in_part = view.launches_of(configuration.partly)[0]["spec"]["parallelism"] == configuration.admitted_count
    late = [pod["status"]["phase"] for pod in view.pods_of(configuration.late)]
    begun = [stack.count_marks(share.name, "begun") for share in configuration.shares]
    running = [configuration.now.parallelism, 0, configuration.admitted_count]
    return in_part and late == ["Pending"] * configuration.late.pods and begun == running


def _completed(_: ConfiguredStack, view: NamespaceView) -> bool:
    """Return whether all have succeeded and the ones with a TTL of a second are removed."""
    for share in view.configuration.shares:
        launches = view.launches_of(share)
        ended = all(true_conditions(body) & {"Complete", "Succeeded"} for body in launches)
        if not ended or len(launches) != (0 if share.short_ttl else share.launch_count):
            return False
    return True


def assert_trained_once(stack: ConfiguredStack, stopped: dict[str, int]) -> None:
    """Check the files on the volume: every training ended once, and started once more if it was preempted.

    `stopped`: the number of starts of each workload before its preemption.
    """
    for share in stack.configuration.shares:
        marks = {which: stack.count_marks(share.name, which) for which in ("begun", "ended")}
        assert marks == {"begun": share.completions + stopped[share.name], "ended": share.completions}, (
            stack.configuration.description,
            share.name,
        )
        if share.is_managed:
            path = share.config.get("run", share.config)["record"]["path"]
            runs = [file for file in (stack.volume / path).rglob("run.json") if f"/{share.name}-" in str(file)]
            assert all((file.parent / "_SUCCESS").is_file() for file in runs), (
                stack.configuration.description,
                share.name,
            )
            attempts = sorted(json.loads(file.read_text())["attempts"] for file in runs)
            again = stopped[share.name]
            assert attempts == [1] * (share.completions - again) + [2] * again, (
                stack.configuration.description,
                share.name,
            )


def _expire(stack: ConfiguredStack) -> None:
    """Set a TTL of 0 on all finished launches, as the cluster's owner, and wait for their removal."""
    for body in stack.view().launches:
        ttl: Body = {"ttlSecondsAfterFinished": 0}
        spec = {"runPolicy": ttl} if "runPolicy" in body["spec"] else ttl
        words = (body["kind"].lower(), body["metadata"]["name"], "-n", stack.configuration.name)
        done = stack.owner.kubectl("patch", *words, "--type=merge", "-p", json.dumps({"spec": spec}))
        assert done.code == 0, done.text
    _await_state(stack, "removed", lambda _, view: not view.launches)
