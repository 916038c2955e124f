"""The course of one configuration: its runs reach each state, are checked, and `up` runs again."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.cluster.lab import true_conditions
from tests.cluster.people import make_job
from tests.cluster.project import eventually
from tests.faults.configurations import LATE
from tests.faults.places import Body, Place, View
from tests.faults.surroundings import stack_config

SECONDS = 400
"""The timeout for a state, on a busy machine."""
PAUSE = 2
"""Seconds between polls: four configurations poll at the same time."""
RIVAL = "rival"
NOWHERE = {"again.example.org/nowhere": "yes"}
"""A label that no node has: the rival takes quota, but no cpu."""


def follow(place: Place) -> None:
    """Bring the runs into every state, from queued to removed by a TTL; a second `up` changes nothing in any."""
    whole = place.whole
    if whole.environment == "owner":
        # The queue must exist before the rival and the runs.
        _up(place)
    _create_rival(place)
    place.project.write_stack(whole.name, stack_config(whole))
    _up(place)
    _reach(place, "queued", _queued)
    _up_changes_nothing(place)

    _delete_rival(place)
    _reach(place, "admitted, in part, and running", _admitted)
    _up_changes_nothing(place)
    stopped = {share.name: place.marks(share.name, "begun") for share in whole.shares}

    _create_rival(place)
    _reach(place, "preempted", _preempted)
    _up_changes_nothing(place)

    _delete_rival(place)
    _label_node(place, "yes")
    (place.volume / "go").touch()
    _reach(place, "completed, and the brief one removed by its TTL", _completed)
    trained_once(place, stopped)
    _nothing_is_launched(place, settled=True)
    _up_changes_nothing(place)

    _expire(place)
    _nothing_is_launched(place, settled=True)
    assert place.view().launches == []
    trained_once(place, stopped)


def clean_up(place: Place) -> None:
    """Remove the stack in any state."""
    _delete_rival(place)
    _label_node(place, "")
    place.project.take_down()


def _up(place: Place, *words: str) -> str:
    done = place.project.up(*words)
    assert done.code == 0, f"{place.whole.description}: {done.text}"
    return done.text


def _up_changes_nothing(place: Place) -> None:
    """Check that a second `up --refresh` finds no changes and keeps the launches."""
    before = place.uids()
    _up(place, "--refresh", "--expect-no-changes")
    assert place.uids() == before, place.whole.description


def _nothing_is_launched(place: Place, *, settled: bool) -> None:
    """Check that `up` drops the objects that a TTL removed from the state, and does not create them again."""
    before, remembered = place.uids(), place.ledgers()
    output = _up(place, "--refresh")
    assert ("settled" in output) is settled, f"{place.whole.description}: {output}"
    assert place.uids() == before, place.whole.description
    assert place.ledgers() == remembered, place.whole.description


def _reach(place: Place, state: str, look: Callable[[Place, View], Any]) -> None:
    try:
        eventually(f"{place.whole.description} is {state}", lambda: look(place, place.view()), SECONDS, every=PAUSE)
    except AssertionError as error:
        raise AssertionError("\n".join((str(error), *_current_state(place, place.view())))) from None


def _current_state(place: Place, view: View) -> Iterator[str]:
    """Yield a description of the current state, for the message of a timeout."""
    for body in view.launches:
        metadata, workload = body["metadata"], view.workloads.get(body["metadata"]["uid"], {})
        yield f"{body['kind']} {metadata['name']}: {true_conditions(body)}, its Workload: {true_conditions(workload)}"
    for share in place.whole.shares:
        pods = [(pod["metadata"]["name"], pod["status"]["phase"]) for pod in view.pods(share)]
        marks = {which: place.marks(share.name, which) for which in ("begun", "ended")}
        yield f"{share.name}: pods {pods}, {marks}"


def _create_rival(place: Place) -> None:
    """Create another user's Job with a high priority, which takes all of the queue's quota."""
    whole = place.whole
    job = make_job(image="busybox:1.35", requests={"cpu": f"{whole.quota}m", "memory": "16Mi"})
    labels = {"kueue.x-k8s.io/queue-name": whole.queue, "kueue.x-k8s.io/priority-class": "high"}
    job["metadata"] = {"generateName": f"{RIVAL}-", "namespace": whole.name, "labels": {**labels, RIVAL: "yes"}}
    pod = job["spec"]["template"]["spec"]
    pod["nodeSelector"] = NOWHERE
    pod["securityContext"] = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    pod["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    uid = place.owner.create(job)["metadata"]["uid"]
    _reach(place, "behind a rival", lambda _, view: _held_quota(view, uid))


def _delete_rival(place: Place) -> None:
    done = place.owner.kubectl("delete", "jobs", "-n", place.whole.name, "-l", f"{RIVAL}=yes")
    assert done.code == 0, done.text


def _label_node(place: Place, value: str) -> None:
    """Set the label that the pods of `late` require on the nodes; remove it if the value is empty."""
    word = f"{LATE}-{place.whole.name}"
    done = place.owner.kubectl("label", "nodes", "--all", "--overwrite", f"{word}={value}" if value else f"{word}-")
    assert done.code == 0, done.text


def _held_quota(view: View, uid: str) -> bool:
    """Return whether the launch with this UID has quota."""
    return "QuotaReserved" in true_conditions(view.workloads.get(uid, {}))


def _waiting(view: View) -> list[Body]:
    """Return the Workloads of all launches if all of them wait in the queue, else an empty list."""
    launches = view.launches
    uids = {body["metadata"]["uid"] for body in launches}
    found = [body for uid, body in view.workloads.items() if uid in uids]
    count = sum(share.objects for share in view.whole.shares)
    whole = len(found) == len(launches) == view.waiting == count
    stopped = all(body["spec"].get("runPolicy", body["spec"])["suspend"] for body in launches)
    return found if whole and stopped and not any(_held_quota(view, uid) for uid in uids) else []


def _queued(_: Place, view: View) -> bool:
    """Return whether all wait and none was admitted before."""
    found = _waiting(view)
    return bool(found) and not any("Evicted" in true_conditions(body) for body in found)


def _preempted(_: Place, view: View) -> bool:
    """Return whether all are preempted, none of their pods exist, and the parallelism is the declared one again."""
    found, partly = _waiting(view), view.whole.partly
    if not found:
        return False
    reasons = {
        each["reason"]
        for body in found
        for each in body["status"]["conditions"]
        if each["type"] == "Evicted" and each["status"] == "True"
    }
    evicted = all("Evicted" in true_conditions(body) for body in found)
    here = [pod for share in view.whole.shares for pod in view.pods(share)]
    asked = view.of(partly)[0]["spec"]["parallelism"] == partly.at_once
    return asked and evicted and reasons == {"Preempted"} and not here


def _admitted(place: Place, view: View) -> bool:
    """Return whether all are admitted: one partially, one with unschedulable pods, one that runs."""
    whole = view.whole
    mine = [view.workloads.get(body["metadata"]["uid"], {}) for body in view.launches]
    if not all("Admitted" in true_conditions(body) for body in mine):
        return False
    in_part = view.of(whole.partly)[0]["spec"]["parallelism"] == whole.admitted_count
    late = [pod["status"]["phase"] for pod in view.pods(whole.late)]
    begun = [place.marks(share.name, "begun") for share in whole.shares]
    running = [whole.now.at_once, 0, whole.admitted_count]
    return in_part and late == ["Pending"] * whole.late.pods and begun == running


def _completed(_: Place, view: View) -> bool:
    """Return whether all have succeeded and the ones with a TTL of a second are removed."""
    for share in view.whole.shares:
        launches = view.of(share)
        ended = all(true_conditions(body) & {"Complete", "Succeeded"} for body in launches)
        if not ended or len(launches) != (0 if share.brief else share.objects):
            return False
    return True


def trained_once(place: Place, stopped: dict[str, int]) -> None:
    """Check the files on the volume: every training ended once, and started once more if it was preempted.

    `stopped`: the number of starts of each workload before its preemption.
    """
    for share in place.whole.shares:
        marks = {which: place.marks(share.name, which) for which in ("begun", "ended")}
        assert marks == {"begun": share.ends + stopped[share.name], "ended": share.ends}, (
            place.whole.description,
            share.name,
        )
        if share.recorded:
            path = share.config.get("run", share.config)["record"]["path"]
            runs = [file for file in (place.volume / path).rglob("run.json") if f"/{share.name}-" in str(file)]
            assert all((file.parent / "_SUCCESS").is_file() for file in runs), (place.whole.description, share.name)
            attempts = sorted(json.loads(file.read_text())["attempts"] for file in runs)
            again = stopped[share.name]
            assert attempts == [1] * (share.ends - again) + [2] * again, (place.whole.description, share.name)


def _expire(place: Place) -> None:
    """Set a TTL of 0 on all finished launches, as the cluster's owner, and wait for their removal."""
    for body in place.view().launches:
        ttl: Body = {"ttlSecondsAfterFinished": 0}
        spec = {"runPolicy": ttl} if "runPolicy" in body["spec"] else ttl
        words = (body["kind"].lower(), body["metadata"]["name"], "-n", place.whole.name)
        done = place.owner.kubectl("patch", *words, "--type=merge", "-p", json.dumps({"spec": spec}))
        assert done.code == 0, done.text
    _reach(place, "removed", lambda _, view: not view.launches)
