"""The course of one configuration: each state of its runs is brought about, looked at, and then brought up again."""

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
"""How long a state may take on a machine that has much to do."""
PAUSE = 2
"""Seconds between looks: four configurations look at one time."""
RIVAL = "rival"
NOWHERE = {"again.example.org/nowhere": "yes"}
"""A node's label that no node has: the rival takes quota, and no cpu."""


def follow(place: Place) -> None:
    """From the queue to what a TTL leaves; a further `up --refresh` changes nothing at any time."""
    whole = place.whole
    if whole.environment == "owner":
        # The queue has to be there before the rival and the runs.
        _up(place)
    _rival_comes(place)
    place.project.write_stack(whole.name, stack_config(whole))
    _up(place)
    _reach(place, "queued", _queued)
    _twice(place)

    _rival_goes(place)
    _reach(place, "admitted, in part, and running", _admitted)
    _twice(place)
    stopped = {share.name: place.marks(share.name, "begun") for share in whole.shares}

    _rival_comes(place)
    _reach(place, "preempted", _preempted)
    _twice(place)

    _rival_goes(place)
    _label_node(place, "yes")
    (place.volume / "go").touch()
    _reach(place, "completed, and the brief one removed by its TTL", _completed)
    trained_once(place, stopped)
    _nothing_is_launched(place, settled=True)
    _twice(place)

    _expire(place)
    _nothing_is_launched(place, settled=True)
    assert place.view().launches == []
    trained_once(place, stopped)


def clean_up(place: Place) -> None:
    """Take the stack away, whatever state it is in."""
    _rival_goes(place)
    _label_node(place, "")
    place.project.take_down()


def _up(place: Place, *words: str) -> str:
    done = place.project.up(*words)
    assert done.code == 0, f"{place.whole.told}: {done.text}"
    return done.text


def _twice(place: Place) -> None:
    """A further `up` that reads every live object finds nothing to do, and the launches are the same objects."""
    before = place.uids()
    _up(place, "--refresh", "--expect-no-changes")
    assert place.uids() == before, place.whole.told


def _nothing_is_launched(place: Place, *, settled: bool) -> None:
    """Objects that a TTL removed leave the engine's state, and stay away."""
    before, remembered = place.uids(), place.ledgers()
    said = _up(place, "--refresh")
    assert ("settled" in said) is settled, f"{place.whole.told}: {said}"
    assert place.uids() == before, place.whole.told
    assert place.ledgers() == remembered, place.whole.told


def _reach(place: Place, state: str, look: Callable[[Place, View], Any]) -> None:
    try:
        eventually(f"{place.whole.told} is {state}", lambda: look(place, place.view()), SECONDS, every=PAUSE)
    except AssertionError as error:
        raise AssertionError("\n".join((str(error), *_seen(place, place.view())))) from None


def _seen(place: Place, view: View) -> Iterator[str]:
    """What stands there instead of the state that was awaited."""
    for body in view.launches:
        metadata, workload = body["metadata"], view.workloads.get(body["metadata"]["uid"], {})
        yield f"{body['kind']} {metadata['name']}: {true_conditions(body)}, its Workload: {true_conditions(workload)}"
    for share in place.whole.shares:
        pods = [(pod["metadata"]["name"], pod["status"]["phase"]) for pod in view.pods(share)]
        told = {which: place.marks(share.name, which) for which in ("begun", "ended")}
        yield f"{share.name}: pods {pods}, {told}"


def _rival_comes(place: Place) -> None:
    """Somebody else's Job of high priority takes all of the queue's quota."""
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


def _rival_goes(place: Place) -> None:
    done = place.owner.kubectl("delete", "jobs", "-n", place.whole.name, "-l", f"{RIVAL}=yes")
    assert done.code == 0, done.text


def _label_node(place: Place, value: str) -> None:
    """Let the pods of `late` stand on the node, or, with no value, nowhere."""
    word = f"{LATE}-{place.whole.name}"
    done = place.owner.kubectl("label", "nodes", "--all", "--overwrite", f"{word}={value}" if value else f"{word}-")
    assert done.code == 0, done.text


def _held_quota(view: View, uid: str) -> bool:
    """Whether the launch of that UID has quota."""
    return "QuotaReserved" in true_conditions(view.workloads.get(uid, {}))


def _waiting(view: View) -> list[Body]:
    """Kueue's Workloads of all launches, once each has one and all stand in the queue; else none."""
    launches = view.launches
    uids = {body["metadata"]["uid"] for body in launches}
    found = [body for uid, body in view.workloads.items() if uid in uids]
    count = sum(share.objects for share in view.whole.shares)
    whole = len(found) == len(launches) == view.waiting == count
    stopped = all(body["spec"].get("runPolicy", body["spec"])["suspend"] for body in launches)
    return found if whole and stopped and not any(_held_quota(view, uid) for uid in uids) else []


def _queued(_: Place, view: View) -> bool:
    """All wait, and none has been admitted before."""
    found = _waiting(view)
    return bool(found) and not any("Evicted" in true_conditions(body) for body in found)


def _preempted(_: Place, view: View) -> bool:
    """All have been put out for the rival, nothing of them runs, and the count that Kueue wrote is as it was asked."""
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
    """All are admitted; one in part, one whose pods find no node, one that runs."""
    whole = view.whole
    mine = [view.workloads.get(body["metadata"]["uid"], {}) for body in view.launches]
    if not all("Admitted" in true_conditions(body) for body in mine):
        return False
    in_part = view.of(whole.partly)[0]["spec"]["parallelism"] == whole.given
    late = [pod["status"]["phase"] for pod in view.pods(whole.late)]
    begun = [place.marks(share.name, "begun") for share in whole.shares]
    running = [whole.now.at_once, 0, whole.given]
    return in_part and late == ["Pending"] * whole.late.pods and begun == running


def _completed(_: Place, view: View) -> bool:
    """All have ended well; what has a TTL of a second is gone."""
    for share in view.whole.shares:
        launches = view.of(share)
        ended = all(true_conditions(body) & {"Complete", "Succeeded"} for body in launches)
        if not ended or len(launches) != (0 if share.brief else share.objects):
            return False
    return True


def trained_once(place: Place, stopped: dict[str, int]) -> None:
    """By what the programs and the wrapper left on the volume: each end once, each beginning as often as it must.

    `stopped`: of each workload, how often it had begun when it was put out.
    """
    for share in place.whole.shares:
        told = {which: place.marks(share.name, which) for which in ("begun", "ended")}
        assert told == {"begun": share.ends + stopped[share.name], "ended": share.ends}, (place.whole.told, share.name)
        if share.recorded:
            path = share.config.get("run", share.config)["record"]["path"]
            runs = [file for file in (place.volume / path).rglob("run.json") if f"/{share.name}-" in str(file)]
            assert all((file.parent / "_SUCCESS").is_file() for file in runs), (place.whole.told, share.name)
            attempts = sorted(json.loads(file.read_text())["attempts"] for file in runs)
            again = stopped[share.name]
            assert attempts == [1] * (share.ends - again) + [2] * again, (place.whole.told, share.name)


def _expire(place: Place) -> None:
    """Have all that has ended removed by a TTL that the cluster's owner sets."""
    for body in place.view().launches:
        ttl: Body = {"ttlSecondsAfterFinished": 0}
        spec = {"runPolicy": ttl} if "runPolicy" in body["spec"] else ttl
        words = (body["kind"].lower(), body["metadata"]["name"], "-n", place.whole.name)
        done = place.owner.kubectl("patch", *words, "--type=merge", "-p", json.dumps({"spec": spec}))
        assert done.code == 0, done.text
    _reach(place, "removed", lambda _, view: not view.launches)
