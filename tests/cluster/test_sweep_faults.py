"""Trials that crash, hang, or are preempted or removed are reported as such, and do not affect other trials."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.lab import (
    HELD,
    NAMESPACE,
    OPEN,
    Config,
    admission_enabled,
    assert_no_changes,
    launch,
    launches,
    true_conditions,
    uid,
    unmanaged_run,
)
from tests.cluster.project import Project, eventually
from tests.cluster.search import (
    GO,
    launches_by_id,
    records,
    search_config,
    sweep_report,
    sweep_run,
    trials_of,
    up,
    write_space,
)

pytestmark = pytest.mark.cluster

DEADLINE = 45
"""Seconds. In each form, the two trials that do not hang must end within it, even on a busy machine."""
PROGRAM = f"""\
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


def write_sweep(project: Project, name: str, *behaviours: str, form: str = "indexed", **changes: object) -> Config:
    """Write the space of a sweep whose trials have these behaviours, and return its entry."""
    write_space(project, name, {"what": {"categorical": list(behaviours)}}, env={"WHAT": "${parameters.what}"})
    gang = {"parallelism": len(behaviours)} if form == "indexed" else {}
    return {"name": name, "form": form, **gang, "run": sweep_run(name, PROGRAM, **{"priority": "low", **changes})}


@contextmanager
def deployed_sweeps(lab: Project, name: str, *sweeps: Config) -> Iterator[Project]:
    """Yield a team's stack with these sweeps, deployed, and destroy it afterwards."""
    project = lab.other_stack(name, search_config(lab.stack, *sweeps))
    try:
        up(project)
        yield project
    finally:
        project.take_down()


def only_job(project: Project, name: str) -> Config:
    """Return the only Job of a sweep."""
    (body,) = launches_by_id(project, name).values()
    return body


def records_by_behaviour(project: Project) -> dict[str, dict[str, Config]]:
    """Return the records by sweep, and by the trial's behaviour."""
    found: dict[str, dict[str, Config]] = {}
    for record in records(project, project.stack).values():
        sweep = record["definition"]["sweep"]
        found.setdefault(sweep["name"], {})[sweep["parameters"]["what"]] = record
    return found


def test_failed_trials_are_reported_and_do_not_affect_others(lab: Project) -> None:
    """A crash, a deadline, a preemption and a retry are reported in both forms.

    The reports are from the cluster's objects and from the records.
    """
    failing: Config = {"backoffLimit": 0, "activeDeadlineSeconds": DEADLINE}
    sweeps = (
        write_sweep(lab, "together", "fine", "crash", "hang", **failing),
        write_sweep(lab, "apart", "fine", "crash", "hang", form="jobs", **failing),
        write_sweep(lab, "again", "flaky", "long", "fine", backoffLimit=1),
        write_sweep(lab, "alone", "long-alone", form="jobs", backoffLimit=0),
    )
    with preempting(lab), deployed_sweeps(lab, "faults", *sweeps) as project:
        eventually(
            "the Job of three trials has failed", lambda: "Failed" in true_conditions(only_job(project, "together"))
        )
        assert_failures_of_one_job(project)
        eventually(
            "each trial for itself has ended", lambda: all(map(is_finished, launches_by_id(project, "apart").values()))
        )
        assert_failures_of_separate_jobs(project)
        assert_sweep_status(project)
        eventually(
            "a second try succeeded", lambda: only_job(project, "again")["status"].get("completedIndexes") == "0,2"
        )
        preempt_and_readmit(project)
        assert_records(project)
        assert_no_changes(project)


@contextmanager
def preempting(project: Project) -> Iterator[None]:
    """Let the open queue preempt workloads of lower priority for the duration of the block."""

    def evict(policy: str) -> None:
        patch = json.dumps({"spec": {"preemption": {"withinClusterQueue": policy}}})
        done = project.kubectl("patch", "clusterqueue", f"{NAMESPACE}-{OPEN}", "--type=merge", "--patch", patch)
        assert done.code == 0, done.text

    evict("LowerPriority")
    try:
        yield
    finally:
        evict("Never")


def is_finished(body: Config) -> bool:
    """Return whether a Job has finished."""
    return bool(true_conditions(body) & {"Complete", "Failed"})


def assert_failures_of_one_job(project: Project) -> None:
    """Assert the failures by index; the pod that hung was ended by its own deadline."""
    body = only_job(project, "together")
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


def assert_failures_of_separate_jobs(project: Project) -> None:
    """Assert the failures by the condition of each Job."""
    reasons = {}
    for body in launches_by_id(project, "apart").values():
        (condition,) = (
            condition for condition in body["status"]["conditions"] if condition["type"] in ("Complete", "Failed")
        )
        (behaviour,) = (
            variable["value"]
            for variable in body["spec"]["template"]["spec"]["containers"][0]["env"]
            if variable["name"] == "WHAT"
        )
        reasons[behaviour] = (condition["type"], condition["reason"])
    assert reasons["fine"][0] == "Complete"
    assert reasons["crash"] == ("Failed", "BackoffLimitExceeded")
    assert reasons["hang"] == ("Failed", "DeadlineExceeded")
    # The columns of the table may break the message.
    assert "DeadlineExceeded" in project.trainstack("status").out


def assert_sweep_status(project: Project) -> None:
    """Assert that `sweep status` reports the same states and reasons in both forms."""
    for sweep in ("together", "apart"):
        states = states_of(project, sweep)
        assert states["fine"] == ("succeeded", "")
        assert states["crash"] == ("failed", "crashed (exit 3)")
        assert states["hang"] == ("failed", "deadline: it exceeded activeDeadlineSeconds")


def states_of(project: Project, sweep: str) -> dict[str, tuple[str, str]]:
    """Return the states and reasons of trials, by behaviour."""
    trials = sweep_report(project, "status", sweep)["trials"]
    return {trial["parameters"]["what"]: (trial["state"], trial["reason"]) for trial in trials}


def preempt_and_readmit(project: Project) -> None:
    """Preempt two Jobs with a run of higher priority; they report the reason, and later resume."""
    before = {name: uid(only_job(project, name)) for name in ("again", "alone")}
    waits = ["sh", "-c", "trap 'exit 143' TERM; sleep 1000 & wait"]
    urgent = unmanaged_run("urgent", command=waits, priority="high")
    urgent["resources"] = {"requests": {"cpu": "50m", "memory": "8150Mi"}}
    project.edit_stack(lambda config: config["trainstack:workloads"]["runs"].append(urgent))
    up(project)
    eventually("both gave way", lambda: all(only_job(project, name)["spec"]["suspend"] for name in before))
    (view,) = json.loads(project.trainstack("status", "again", "--json").out)
    assert view["launch"]["phase"] == "queued"
    assert "urgent" in view["waits_because"]
    preempted = {**states_of(project, "again"), **states_of(project, "alone")}
    assert {preempted.pop(behaviour) for behaviour in ("flaky", "fine")} == {("succeeded", "")}
    assert [state for state, _ in preempted.values()] == ["queued", "queued"]
    assert all(f"it was preempted by {NAMESPACE}/urgent-" in reason for _, reason in preempted.values()), preempted
    assert_no_changes(project)
    name = launch(project, "urgent")["metadata"]["labels"]["trainstack.dev/run"]
    project.edit_stack(lambda config: config["trainstack:workloads"].update(runs=[], stop=[name]))
    up(project)
    eventually("the urgent run is gone", lambda: not launches(project, "urgent"))
    project.edit_stack(lambda config: config["trainstack:workloads"].pop("stop"))

    for name, behaviour in (("again", "long"), ("alone", "long-alone")):
        finish_resumed_trial(project, name, behaviour)
        assert uid(only_job(project, name)) == before[name]
        assert set(states_of(project, name).values()) == {("succeeded", "")}
    status = only_job(project, "again")["status"]
    assert (status["completedIndexes"], status.get("failedIndexes", "")) == ("0-2", "")


def finish_resumed_trial(project: Project, name: str, behaviour: str) -> None:
    """Wait until a preempted long trial resumes, and let it and its Job finish."""

    def resumed() -> str | None:
        for pod in project.select("pods", f"trainstack.dev/workload={name}", NAMESPACE):
            running = pod["status"]["phase"] == "Running"
            if running and f"{behaviour} resumed from step 9" in project.log(pod["metadata"]["name"], NAMESPACE):
                return str(pod["metadata"]["name"])
        return None

    touch(project, eventually(f"{behaviour} runs again", resumed), behaviour)
    eventually("all have succeeded", lambda: "Complete" in true_conditions(only_job(project, name)))


def assert_records(project: Project) -> None:
    """Assert that the records alone have the outcome of each trial, in both forms."""
    found = records_by_behaviour(project)
    for sweep in ("together", "apart"):
        fine, crash, hang = (found[sweep][behaviour] for behaviour in ("fine", "crash", "hang"))
        assert fine["finished"]
        assert fine["failures"] == []
        assert not crash["finished"]
        assert [(failure["exit_code"], failure["last_lines"][-1]) for failure in crash["failures"]] == [
            (3, "about to crash")
        ]
        assert not hang["finished"]
        assert [failure["stopped_by_sigterm"] for failure in hang["failures"]] == [True]
    flaky, long, alone = found["again"]["flaky"], found["again"]["long"], found["alone"]["long-alone"]
    assert [failure["exit_code"] for failure in flaky["failures"]] == [4]
    assert "flaky resumed from step 7" in flaky["log"]
    for preempted in (long, alone):
        assert [failure["stopped_by_sigterm"] for failure in preempted["failures"]] == [True]
    for record in (flaky, long, alone):
        assert (record["finished"], record["attempts"]) == (True, 2)


@pytest.mark.slow
def test_removed_sets_stop_if_queued_or_named_in_stop(lab: Project) -> None:
    """Queued trials of removed sets are deleted, and running ones stop only if `stop` names them.

    Other trials of the same Job continue.
    """
    together = {
        **write_sweep(lab, "together", "long-a", "long-b", "long-c", "long-d", backoffLimit=0),
        "parallelism": 2,
    }
    # Both sweeps share the volume, so their trials need different files to end.
    apart = write_sweep(lab, "apart", "long-e", "long-f", "long-g", "long-h", form="jobs", queue=HELD)
    with deployed_sweeps(lab, "taken-out", together, apart) as project:
        assert len(launches_by_id(project, "apart")) == 4
        pods = eventually("two trials at work", lambda: running_pods(project, "together", 2))
        first = uid(only_job(project, "together"))
        run_ids = {
            trial["parameters"]["what"]: trial["run_id"] for trial in trials_of(project, only_job(project, "together"))
        }

        for name, remaining in (("together", ("long-a", "long-c")), ("apart", ("long-e", "long-g"))):
            write_sweep(project, name, *remaining)
        up(project)
        assert len(launches_by_id(project, "apart")) == 2
        assert len(running_pods(project, "together", 2)) == 2
        touch(project, pods["0"], "long-a")
        # The Job skips the index of the removed set, and the third trial starts.
        pods = eventually("the third trial", lambda: running_pods(project, "together", 2, "2"))
        assert uid(only_job(project, "together")) == first

        project.edit_stack(lambda config: config["trainstack:workloads"].update(stop=[run_ids["long-b"]]))
        up(project)
        eventually("the named trial ends", lambda: "1" in completed(project), 180)
        touch(project, pods["2"], "long-c")
        eventually("the Job ends", lambda: "Complete" in true_conditions(only_job(project, "together")))
        project.edit_stack(lambda config: config["trainstack:workloads"].pop("stop"))
        found = records_by_behaviour(project)["together"]
        assert sorted(found) == ["long-a", "long-b", "long-c"]
        assert [found[behaviour]["finished"] for behaviour in sorted(found)] == [True, False, True]
        assert [failure["withdrawn"] for failure in found["long-b"]["failures"]] == [True]

        with admission_enabled(lab, HELD):
            assert_running_trial_stops_only_if_named(project)


def assert_running_trial_stops_only_if_named(project: Project) -> None:
    """Remove the set of a running trial in form `jobs`, and assert that the trial continues until `stop` names it."""
    eventually("both trials that are left", lambda: running_pods(project, "apart", 2))
    before = set(launches_by_id(project, "apart"))
    write_sweep(project, "apart", "long-e", form="jobs")
    text = up(project)
    assert "still running although the set was removed" in text
    assert set(launches_by_id(project, "apart")) == before
    (named,) = (run_id for run_id in before if f"stop: [{run_id}]" in text)
    project.edit_stack(lambda config: config["trainstack:workloads"].update(stop=[named]))
    up(project)
    eventually("the named one goes alone", lambda: set(launches_by_id(project, "apart")) == before - {named})


def running_pods(project: Project, name: str, count: int, index: str = "") -> dict[str, str]:
    """Return a sweep's running pods by index or name, if there are `count`, including the one with this index."""
    pods = project.select("pods", f"trainstack.dev/workload={name}", NAMESPACE)
    label = "batch.kubernetes.io/job-completion-index"
    found = {
        pod["metadata"]["labels"].get(label, pod["metadata"]["name"]): pod["metadata"]["name"]
        for pod in pods
        if pod["status"]["phase"] == "Running"
    }
    return found if len(found) == count and (not index or index in found) else {}


def completed(project: Project) -> list[str]:
    """Return the succeeded indexes of the Job `together`, and only the bounds of ranges."""
    return str(only_job(project, "together")["status"].get("completedIndexes", "")).replace("-", ",").split(",")


def touch(project: Project, pod: str, behaviour: str) -> None:
    """Create the file that ends a long trial."""
    assert project.kubectl("exec", "-n", NAMESPACE, pod, "--", "touch", f"{GO}-{behaviour}").code == 0
