"""Trials that crash, hang, are put out or taken out: told as what they are, and the others are unharmed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.lab import (
    HELD,
    NAMESPACE,
    OPEN,
    Config,
    admitting,
    bare,
    launch,
    launches,
    quiet,
    true_conditions,
    uid,
)
from tests.cluster.project import Project, eventually
from tests.cluster.search import GO, launched, program, records, search_config, space, told, trials_of, up

pytestmark = pytest.mark.cluster

DEADLINE = 45
"""Seconds. Of the three trials of each form the two that do not hang have to end within it, on a busy machine too."""
BEHAVES = f"""\
import os, pathlib, signal, sys, time
what, resumes = os.environ["WHAT"], os.environ["TRAINSTACK_RESUME"] == "1"
checkpoint = pathlib.Path(os.environ["TRAINSTACK_CHECKPOINT"], "step")
print(what, "resumed from step " + checkpoint.read_text() if resumes else "begins", flush=True)
if what == "crash":
    print("about to crash", flush=True)
    sys.exit(3)
if what == "hang":
    time.sleep(1000000)
if what == "flaky" and not resumes:
    checkpoint.write_text("7")
    sys.exit(4)
if what.startswith("long"):
    def stop(*_):
        checkpoint.write_text("9")
        sys.exit(143)
    signal.signal(signal.SIGTERM, stop)
    while not pathlib.Path("{GO}-" + what).exists():
        time.sleep(0.1)
pathlib.Path(os.environ["TRAINSTACK_OUTPUT"], "metrics.jsonl").write_text('{{"epoch": 1, "val_accuracy": 0.5}}\\n')
"""


def behaving(project: Project, name: str, *whats: str, form: str = "indexed", **changes: object) -> Config:
    """A sweep whose trials do these things."""
    space(project, name, {"what": {"categorical": list(whats)}}, env={"WHAT": "${parameters.what}"})
    gang = {"parallelism": len(whats)} if form == "indexed" else {}
    return {"name": name, "form": form, **gang, "run": program(name, BEHAVES, **{"priority": "low", **changes})}


@contextmanager
def searching(lab: Project, name: str, *sweeps: Config) -> Iterator[Project]:
    """A team's stack with these sweeps, up; destroyed afterwards."""
    project = lab.other(name, search_config(lab.stack, *sweeps))
    try:
        up(project)
        yield project
    finally:
        project.take_down()


def only(project: Project, name: str) -> Config:
    """The one Job of a sweep."""
    (body,) = launched(project, name).values()
    return body


def by_what(project: Project) -> dict[str, dict[str, Config]]:
    """The records by sweep, and by what the trial did."""
    found: dict[str, dict[str, Config]] = {}
    for record in records(project, project.stack).values():
        told = record["definition"]["sweep"]
        found.setdefault(told["name"], {})[told["parameters"]["what"]] = record
    return found


def test_trials_that_fail_are_told_apart_and_leave_the_others_alone(lab: Project) -> None:
    """Crash, deadline, preemption, a second try: in both forms, from the cluster's objects and from the records."""
    failing: Config = {"backoffLimit": 0, "activeDeadlineSeconds": DEADLINE}
    sweeps = (
        behaving(lab, "together", "fine", "crash", "hang", **failing),
        behaving(lab, "apart", "fine", "crash", "hang", form="jobs", **failing),
        behaving(lab, "again", "flaky", "long", "fine", backoffLimit=1),
        behaving(lab, "alone", "long-alone", form="jobs", backoffLimit=0),
    )
    with preempting(lab), searching(lab, "faults", *sweeps) as project:
        eventually("the Job of three trials has failed", lambda: "Failed" in true_conditions(only(project, "together")))
        failed_as_one_job(project)
        eventually("each trial for itself has ended", lambda: all(map(over, launched(project, "apart").values())))
        failed_one_by_one(project)
        told_by_the_cluster(project)
        eventually("a second try succeeded", lambda: only(project, "again")["status"].get("completedIndexes") == "0,2")
        put_out_and_readmitted(project)
        told_by_records(project)
        quiet(project)


@contextmanager
def preempting(project: Project) -> Iterator[None]:
    """The open queue evicts what has a lower priority, meanwhile."""

    def evict(policy: str) -> None:
        patch = json.dumps({"spec": {"preemption": {"withinClusterQueue": policy}}})
        done = project.kubectl("patch", "clusterqueue", f"{NAMESPACE}-{OPEN}", "--type=merge", "--patch", patch)
        assert done.code == 0, done.text

    evict("LowerPriority")
    try:
        yield
    finally:
        evict("Never")


def over(body: Config) -> bool:
    """Whether a Job has ended."""
    return bool(true_conditions(body) & {"Complete", "Failed"})


def failed_as_one_job(project: Project) -> None:
    """By index; the pod that hung was ended by its own deadline."""
    body = only(project, "together")
    assert (body["status"]["completedIndexes"], body["status"]["failedIndexes"]) == ("0", "1,2")
    pods = project.select("pods", f"job-name={body['metadata']['name']}", NAMESPACE)
    index = "batch.kubernetes.io/job-completion-index"
    states = {pod["metadata"]["labels"][index]: (pod["status"]["phase"], pod["status"].get("reason")) for pod in pods}
    assert states == {"0": ("Succeeded", None), "1": ("Failed", None), "2": ("Failed", "DeadlineExceeded")}
    batch = body["metadata"]["labels"]["trainstack.dev/run"]
    (view,) = json.loads(project.trainstack("status", batch, "--json").out)
    assert view["launch"]["phase"] == "failed"
    assert view["launch"]["sweep"]["succeeded"] == [0]
    waited = project.trainstack("wait", batch)
    assert waited.code == 1
    assert f"failed: {batch} (FailedIndexes: " in waited.text


def failed_one_by_one(project: Project) -> None:
    """By each Job's own condition."""
    reasons = {}
    for body in launched(project, "apart").values():
        (condition,) = (each for each in body["status"]["conditions"] if each["type"] in ("Complete", "Failed"))
        (what,) = (
            each["value"] for each in body["spec"]["template"]["spec"]["containers"][0]["env"] if each["name"] == "WHAT"
        )
        reasons[what] = (condition["type"], condition["reason"])
    assert reasons["fine"][0] == "Complete"
    assert reasons["crash"] == ("Failed", "BackoffLimitExceeded")
    assert reasons["hang"] == ("Failed", "DeadlineExceeded")
    shown = project.trainstack("status").out
    assert "failed: DeadlineExceeded: " in shown.replace("\n", " ") or "DeadlineExceeded" in shown


def told_by_the_cluster(project: Project) -> None:
    """What became of each trial, and why, as `sweep status` says it of either form."""
    for sweep in ("together", "apart"):
        states = states_of(project, sweep)
        assert states["fine"] == ("succeeded", "")
        assert states["crash"] == ("failed", "crashed (exit 3)")
        assert states["hang"] == ("failed", "deadline: it exceeded activeDeadlineSeconds")


def states_of(project: Project, sweep: str) -> dict[str, tuple[str, str]]:
    """By what the trials do: their states, with the reasons."""
    trials = told(project, "status", sweep)["trials"]
    return {each["parameters"]["what"]: (each["state"], each["reason"]) for each in trials}


def put_out_and_readmitted(project: Project) -> None:
    """A run of higher priority takes the quota: the Jobs wait, told why, and go on where they were."""
    before = {name: uid(only(project, name)) for name in ("again", "alone")}
    waits = ["sh", "-c", "trap 'exit 143' TERM; sleep 1000 & wait"]
    urgent = bare("urgent", command=waits, priority="high")
    urgent["resources"] = {"requests": {"cpu": "50m", "memory": "8150Mi"}}
    project.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(urgent))
    up(project)
    eventually("both gave way", lambda: all(only(project, name)["spec"]["suspend"] for name in before))
    (view,) = json.loads(project.trainstack("status", "again", "--json").out)
    assert view["launch"]["phase"] == "queued"
    assert "urgent" in view["waits_because"]
    put_out = {**states_of(project, "again"), **states_of(project, "alone")}
    assert {put_out.pop(what) for what in ("flaky", "fine")} == {("succeeded", "")}
    assert [state for state, _ in put_out.values()] == ["queued", "queued"]
    assert all(f"it was preempted by {NAMESPACE}/urgent-" in reason for _, reason in put_out.values()), put_out
    quiet(project)
    name = launch(project, "urgent")["metadata"]["labels"]["trainstack.dev/run"]
    project.edit_stack(lambda config: config["trainstack:workloads"].update(runs=[], stop=[name]))
    up(project)
    eventually("the urgent run is gone", lambda: not launches(project, "urgent"))
    project.edit_stack(lambda config: config["trainstack:workloads"].pop("stop"))

    for name, what in (("again", "long"), ("alone", "long-alone")):
        goes_on(project, name, what)
        assert uid(only(project, name)) == before[name]
        assert set(states_of(project, name).values()) == {("succeeded", "")}
    status = only(project, "again")["status"]
    assert (status["completedIndexes"], status.get("failedIndexes", "")) == ("0-2", "")


def goes_on(project: Project, name: str, what: str) -> None:
    """The long trial that was put out resumes; told to end, it does, and its Job with it."""

    def resumed() -> str | None:
        for pod in project.select("pods", f"trainstack.dev/workload={name}", NAMESPACE):
            running = pod["status"]["phase"] == "Running"
            if running and f"{what} resumed from step 9" in project.log(pod["metadata"]["name"], NAMESPACE):
                return str(pod["metadata"]["name"])
        return None

    touch(project, eventually(f"{what} runs again", resumed), what)
    eventually("all have succeeded", lambda: "Complete" in true_conditions(only(project, name)))


def told_by_records(project: Project) -> None:
    """What each trial did, when pods and Jobs are gone; the same whatever the form."""
    found = by_what(project)
    for sweep in ("together", "apart"):
        fine, crash, hang = (found[sweep][what] for what in ("fine", "crash", "hang"))
        assert fine["finished"]
        assert fine["failures"] == []
        assert not crash["finished"]
        assert [(each["exit_code"], each["last_lines"][-1]) for each in crash["failures"]] == [(3, "about to crash")]
        assert not hang["finished"]
        assert [each["stopped_by_sigterm"] for each in hang["failures"]] == [True]
    flaky, long, alone = found["again"]["flaky"], found["again"]["long"], found["alone"]["long-alone"]
    assert [each["exit_code"] for each in flaky["failures"]] == [4]
    assert "flaky resumed from step 7" in flaky["log"]
    for put_out in (long, alone):
        assert [each["stopped_by_sigterm"] for each in put_out["failures"]] == [True]
    for record in (flaky, long, alone):
        assert (record["finished"], record["attempts"]) == (True, 2)


@pytest.mark.slow
def test_sets_that_are_taken_out_stop_where_they_wait_and_where_they_are_named(lab: Project) -> None:
    """Of both forms: queued ones go, running ones only by name, and the others of the same Job go on."""
    together = {**behaving(lab, "together", "long-a", "long-b", "long-c", "long-d", backoffLimit=0), "parallelism": 2}
    # The volume is the same: what tells a trial of one sweep to end must not tell one of the other.
    apart = behaving(lab, "apart", "long-e", "long-f", "long-g", "long-h", form="jobs", queue=HELD)
    with searching(lab, "taken-out", together, apart) as project:
        assert len(launched(project, "apart")) == 4
        pods = eventually("two trials at work", lambda: at_work(project, "together", 2))
        first = uid(only(project, "together"))
        run_ids = {each["parameters"]["what"]: each["run_id"] for each in trials_of(project, only(project, "together"))}

        for name, left in (("together", ("long-a", "long-c")), ("apart", ("long-e", "long-g"))):
            behaving(project, name, *left)
        up(project)
        assert len(launched(project, "apart")) == 2
        assert len(at_work(project, "together", 2)) == 2
        touch(project, pods["0"], "long-a")
        # Its index is passed by; the third trial begins.
        pods = eventually("the third trial", lambda: at_work(project, "together", 2, "2"))
        assert uid(only(project, "together")) == first

        project.edit_stack(lambda config: config["trainstack:workloads"].update(stop=[run_ids["long-b"]]))
        up(project)
        eventually("the named trial ends", lambda: "1" in completed(project), 180)
        touch(project, pods["2"], "long-c")
        eventually("the Job ends", lambda: "Complete" in true_conditions(only(project, "together")))
        project.edit_stack(lambda config: config["trainstack:workloads"].pop("stop"))
        found = by_what(project)["together"]
        assert sorted(found) == ["long-a", "long-b", "long-c"]
        assert [found[what]["finished"] for what in sorted(found)] == [True, False, True]
        assert [each["withdrawn"] for each in found["long-b"]["failures"]] == [True]

        with admitting(lab, HELD):
            named_alone(project)


def named_alone(project: Project) -> None:
    """Of two trials at work in form `jobs` one is taken out: it runs on, until it is named."""
    eventually("both trials that are left", lambda: at_work(project, "apart", 2))
    before = set(launched(project, "apart"))
    behaving(project, "apart", "long-e", form="jobs")
    text = up(project)
    assert "still running although the set was removed" in text
    assert set(launched(project, "apart")) == before
    (on,) = (run_id for run_id in before if f"stop: [{run_id}]" in text)
    project.edit_stack(lambda config: config["trainstack:workloads"].update(stop=[on]))
    up(project)
    eventually("the named one goes alone", lambda: set(launched(project, "apart")) == before - {on})


def at_work(project: Project, name: str, count: int, index: str = "") -> dict[str, str]:
    """The names of a sweep's running pods by index, or name, once there are so many, with that index among them."""
    pods = project.select("pods", f"trainstack.dev/workload={name}", NAMESPACE)
    label = "batch.kubernetes.io/job-completion-index"
    found = {
        pod["metadata"]["labels"].get(label, pod["metadata"]["name"]): pod["metadata"]["name"]
        for pod in pods
        if pod["status"]["phase"] == "Running"
    }
    return found if len(found) == count and (not index or index in found) else {}


def completed(project: Project) -> list[str]:
    """The succeeded indexes of the one Job, some of them as ranges."""
    return str(only(project, "together")["status"].get("completedIndexes", "")).replace("-", ",").split(",")


def touch(project: Project, pod: str, what: str) -> None:
    """Tell a long trial to end."""
    assert project.kubectl("exec", "-n", NAMESPACE, pod, "--", "touch", f"{GO}-{what}").code == 0
