"""Kinds and names: a bare Pod, names that are fixed or the API server's, a Job of several runs."""

from typing import Any

import pytest

from tests.cluster.lab import (
    HELD,
    MOUNT,
    NAMESPACE,
    Config,
    admitting,
    await_end,
    await_pods,
    bare,
    edit_run,
    in_pod,
    launch,
    launches,
    ledgers,
    quiet,
    refused,
    run_id,
    team_config,
    uid,
    uids,
)
from tests.cluster.project import Project, eventually

pytestmark = pytest.mark.cluster

WAITS = ["sh", "-c", f"trap 'exit 143' TERM; until [ -e {MOUNT}/go ]; do sleep 0.1; done; echo done"]
NO_PROXY = {"sidecar.istio.io/inject": "false"}
FIXED = ("single-pod", "fixed-job", "fixed-torch")


def runs() -> list[Config]:
    """A Pod that no queue holds; a Job and a PyTorchJob of fixed names; two Jobs of generated ones."""
    fixed: Config = {"naming": "fixed", "command": WAITS}
    several: Config = {"completions": 3, "parallelism": 2, "backoffLimit": 4, "ttlSecondsAfterFinished": 3600}
    return [
        bare("single-pod", "Pod", queue=None, restartPolicy="Never", annotations=NO_PROXY, **fixed),
        bare("fixed-job", **fixed),
        bare("fixed-torch", "PyTorchJob", queue=HELD, roles={"Master": {}, "Worker": {}}, **fixed),
        bare("several", queue=HELD, naming="generated", container="data-loader", command=WAITS, **several),
        bare("brief", naming="generated", command=["true"], ttlSecondsAfterFinished=1),
    ]


def test_objects_have_the_names_that_were_asked_for_and_are_launched_once(lab: Project) -> None:
    """Quiet in the queue, running and done; refused while active, replaced afterwards; a lost state makes no second."""
    project = lab.other("named", team_config(lab.stack, *runs()))
    try:
        done = project.up()
        assert done.code == 0, done.text
        eventually("the TTL took the brief run", lambda: not launches(project, "brief"))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        assert "settled" in done.text
        called_as_asked(project)
        quiet(project)
        refused_while_active(project)

        with admitting(lab, HELD):
            await_pods(project, "several", 2)
            await_pods(project, "fixed-torch", 2)
            quiet(project)
            forget(project, "several")
            before = uids(project)
            # The ledger, and the teardown's guard: it depends on everything.
            assert project.changes() == {"import": 1, "create": 2}
            done = project.up()
            assert done.code == 0, done.text
            assert uids(project) == before
            assert run_id(launch(project, "several")) in ledgers(project)
            quiet(project)

            in_pod(project, await_pods(project, "single-pod", 1)[0], "touch", f"{MOUNT}/go")
            done = project.trainstack("wait", "--timeout", "120")
            assert done.code == 0, done.text
            ended(project)
            quiet(project)
            replaced_afterwards(project)
            settled_when_deleted(project)
    finally:
        project.take_down()


def called_as_asked(project: Project) -> None:
    """By name, by the label that tells the launch, and by what the published objects say and no more."""
    bodies = {body["metadata"]["labels"]["trainstack.dev/workload"]: body for body in launches(project)}
    assert sorted(bodies) == sorted((*FIXED, "several"))
    for name, body in bodies.items():
        label = body["metadata"]["labels"]["trainstack.dev/launch"]
        assert label.startswith(f"{run_id(body)}-")
        assert ledgers(project)[run_id(body)] == label
        expected = "several-" if name == "several" else name
        assert body["metadata"]["name"].startswith(expected)
        assert body["metadata"].get("generateName") == ("several-" if name == "several" else None)
    assert bodies["single-pod"]["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    several = bodies["several"]
    assert several["spec"]["completionMode"] == "NonIndexed"
    assert several["spec"]["template"]["spec"]["containers"][0]["name"] == "data-loader"
    assert "cleanPodPolicy" not in bodies["fixed-torch"]["spec"]["runPolicy"]


def refused_while_active(project: Project) -> None:
    """Queued or running, its name would be another run's; the one that `stop` names goes before the other comes."""
    for name in FIXED:
        edit_run(project, name, lambda run: run.update(attempt=2))
    text = refused(project).text
    for name in FIXED:
        assert f"{NAMESPACE}/{name} (run {run_id(launch(project, name))}) has been " in text
    for name in ("single-pod", "fixed-torch"):
        edit_run(project, name, lambda run: run.pop("attempt"))
    before = launch(project, "fixed-job")
    project.edit_stack(lambda config: config["trainstack:workloads"].update(stop=[run_id(before)]))
    done = project.up()
    assert done.code == 0, done.text
    after = launch(project, "fixed-job")
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert run_id(after) != run_id(before)
    project.edit_stack(lambda config: config["trainstack:workloads"].pop("stop"))


def forget(project: Project, name: str) -> None:
    """What an `up` that was killed after a create leaves: the object, but neither a place in the state nor a ledger."""
    label = launch(project, name)["metadata"]["labels"]["trainstack.dev/launch"]
    urns = project.pulumi("stack", "--show-urns").out.split()
    (urn,) = (each for each in urns if each.endswith(f"batch/v1:Job::{NAMESPACE}/{label}"))
    done = project.pulumi("state", "delete", urn, "--yes", "--target-dependents")
    assert done.code == 0, done.text
    done = project.kubectl("delete", "configmap", "-n", NAMESPACE, f"run-{label.rpartition('-')[0]}")
    assert done.code == 0, done.text


def ended(project: Project) -> None:
    """Three pods of the Job have succeeded; the Pod's own log and state are found by the workload's name."""
    assert await_end(project, "several", "Complete")["status"]["succeeded"] == 3
    assert "single-pod" in project.trainstack("status").out
    logs = project.trainstack("logs", "single-pod")
    assert "done" in logs.out, logs.text


def replaced_afterwards(project: Project) -> None:
    """An edited definition takes the name of what has ended; a preview says so."""
    before = uids(project)
    for name in FIXED:
        edit_run(project, name, lambda run: run.update(attempt=3))
    # Their ledgers are others by name.
    assert project.changes() == {"replace": 3, "create": 3, "delete": 3}
    done = project.up()
    assert done.code == 0, done.text
    after = uids(project)
    assert sorted(after) == sorted(before)
    assert {name for name in after if after[name] != before[name]} == {*FIXED}
    await_end(project, "fixed-job", "Complete")
    await_end(project, "fixed-torch", "Succeeded")
    eventually("the Pod's end", lambda: launch(project, "single-pod")["status"]["phase"] == "Succeeded")
    quiet(project)


def settled_when_deleted(project: Project) -> None:
    """By hand or by TTL: launched once is launched."""
    gone: dict[str, Any] = launch(project, "single-pod")
    remembered = ledgers(project)
    assert project.kubectl("delete", "pod", "-n", NAMESPACE, "single-pod").code == 0
    done = project.up("--refresh")
    assert done.code == 0, done.text
    assert f"{run_id(gone)} was launched before and is settled" in done.text
    assert uid(gone) not in uids(project).values()
    assert ledgers(project) == remembered
