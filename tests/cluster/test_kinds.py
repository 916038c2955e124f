"""Kinds and names of runs: a bare Pod, fixed and generated names, a Job with several completions, manifests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.lab import (
    HELD,
    MOUNT,
    NAMESPACE,
    OPEN,
    Config,
    admission_enabled,
    assert_no_changes,
    assert_up_refused,
    await_end,
    await_pods,
    edit_run,
    exec_in_pod,
    launch,
    launches,
    ledgers,
    run_id,
    team_config,
    uid,
    uids,
    unmanaged_run,
)
from tests.cluster.project import Project, eventually
from trainstack.runs.images.content_tags import REGISTRY, workload_reference

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]

WAITS = ["sh", "-c", f"trap 'exit 143' TERM; until [ -e {MOUNT}/go ]; do sleep 0.1; done; echo done"]
NO_PROXY = {"sidecar.istio.io/inject": "false"}
FIXED = ("single-pod", "fixed-job", "fixed-torch")
HANDMADE: Config = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "handmade", "namespace": NAMESPACE},
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.35"}]}},
    },
}
"""A Job that was created without Trainstack."""


def pod_spec(container: str, image: str, **fields: Any) -> Config:
    """Return the spec of a pod that waits for a file on the volume, as users write it."""
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    main = {
        "name": container,
        "image": image,
        "command": WAITS[:2],
        "args": WAITS[2:],
        "securityContext": restricted,
        "resources": {"requests": {"cpu": 0.05, "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": MOUNT}],
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "lab"}}]
    return {"securityContext": user, "containers": [main], "volumes": volumes, **fields}


def manifest_run(name: str, kind: str, api_version: str, spec: Config, **changes: Any) -> Config:
    """Return a run of a manifest with a fixed name."""
    manifest: Config = {"apiVersion": api_version, "kind": kind, "metadata": {"annotations": NO_PROXY}, "spec": spec}
    return {"name": name, "namespace": NAMESPACE, "naming": "fixed", "manifest": manifest, **changes}


def runs() -> list[Config]:
    """Return a Pod without a queue, a Job and a PyTorchJob with fixed names, and two Jobs with generated names.

    Those with fixed names are manifests, and the Job among them is managed.
    """
    template = {"spec": pod_spec("pytorch", "busybox:1.35")}
    torch = {"pytorchReplicaSpecs": {role: {"replicas": 1, "template": template} for role in ("Master", "Worker")}}
    digits = workload_reference(ROOT / "workloads" / "digits", REGISTRY)
    job = {"backoffLimit": 0, "template": {"spec": pod_spec("main", digits, restartPolicy="Never")}}
    job_fields: Config = {"completions": 3, "parallelism": 2, "backoffLimit": 4, "ttlSecondsAfterFinished": 3600}
    return [
        manifest_run("single-pod", "Pod", "v1", pod_spec("program", "busybox:1.35", restartPolicy="Never")),
        manifest_run("fixed-job", "Job", "batch/v1", job, queue=OPEN, managed=True, record={"volume": "lab"}),
        manifest_run("handmade", "Job", "batch/v1", HANDMADE["spec"], adopt=True),
        manifest_run("fixed-torch", "PyTorchJob", "kubeflow.org/v1", torch, queue=HELD),
        unmanaged_run("several", queue=HELD, naming="generated", container="data-loader", command=WAITS, **job_fields),
        unmanaged_run("brief", naming="generated", command=["true"], ttlSecondsAfterFinished=1),
    ]


def test_runs_get_the_declared_names_and_are_launched_once(lab: Project) -> None:
    """`up` changes nothing while runs are active or finished, and launches none again after a loss of state.

    An edited run of a fixed name is refused while it is active, and replaced when it has finished.
    """
    project = lab.other_stack("named", team_config(lab.stack, *runs()))
    file = project.root / ".trainstack" / "handmade.json"
    file.write_text(json.dumps(HANDMADE), encoding="utf-8")
    assert project.kubectl("create", "-f", str(file)).code == 0
    try:
        done = project.up()
        assert done.code == 0, done.text
        assert "is recorded as launched (`adopt`)" in done.text
        eventually("the TTL took the brief run", lambda: not launches(project, "brief"))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        assert "settled" in done.text
        assert_names(project)
        assert_refused_while_active(project)

        with admission_enabled(lab, HELD):
            await_pods(project, "several", 2)
            await_pods(project, "fixed-torch", 2)
            assert_no_changes(project)
            remove_from_state(project, "several")
            before = uids(project)
            # Created are the ledger and the teardown's guard, which depends on everything.
            assert project.changes() == {"import": 1, "create": 2}
            done = project.up()
            assert done.code == 0, done.text
            assert uids(project) == before
            assert run_id(launch(project, "several")) in ledgers(project)

            exec_in_pod(project, await_pods(project, "single-pod", 1)[0], "touch", f"{MOUNT}/go")
            done = project.trainstack("wait", "--timeout", "120")
            assert done.code == 0, done.text
            assert_finished(project)
            assert_no_changes(project)
            assert_replaced_when_finished(project)
            assert_settled_when_deleted(project)
            assert_adopted(project)
    finally:
        project.take_down()
        project.kubectl("delete", "job", "-n", NAMESPACE, "handmade")


def assert_adopted(project: Project) -> None:
    """Assert that the run of a Job that exists is recorded, and that no `up` has changed the Job."""
    assert [run for run in ledgers(project) if run.startswith("handmade-")]
    body = json.loads(project.kubectl("get", "job", "-n", NAMESPACE, "handmade", "-o", "json").out)
    assert "trainstack.dev/run" not in body["metadata"].get("labels", {})
    assert body["metadata"]["generation"] == 1


def assert_names(project: Project) -> None:
    """Assert names and launch labels, and that undeclared fields are unset or have the default."""
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


def assert_refused_while_active(project: Project) -> None:
    """Assert that an edited run is refused while the old one is active, and that `stop` replaces the old one."""
    for name in FIXED:
        edit_run(project, name, lambda run: run.update(attempt=2))
    text = assert_up_refused(project).text
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


def remove_from_state(project: Project, name: str) -> None:
    """Simulate an `up` that was killed after a create: the object has neither a state entry nor a ledger."""
    label = launch(project, name)["metadata"]["labels"]["trainstack.dev/launch"]
    urns = project.pulumi("stack", "--show-urns").out.split()
    (urn,) = (candidate for candidate in urns if candidate.endswith(f"batch/v1:Job::{NAMESPACE}/{label}"))
    done = project.pulumi("state", "delete", urn, "--yes", "--target-dependents")
    assert done.code == 0, done.text
    done = project.kubectl("delete", "configmap", "-n", NAMESPACE, f"run-{label.rpartition('-')[0]}")
    assert done.code == 0, done.text


def assert_finished(project: Project) -> None:
    """Assert that three pods of the Job have succeeded, and that the Pod has status and log by workload name."""
    assert await_end(project, "several", "Complete")["status"]["succeeded"] == 3
    assert "single-pod" in project.trainstack("status").out
    logs = project.trainstack("logs", "single-pod")
    assert "done" in logs.out, logs.text
    assert_recorded(project)


def assert_recorded(project: Project) -> None:
    """Assert that the wrapper has recorded the managed run of a manifest, with its program."""
    body = launch(project, "fixed-job")
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert container["command"][-3:] == WAITS
    assert "args" not in container
    done = project.trainstack("fetch", run_id(body))
    assert done.code == 0, done.text
    (file,) = project.root.glob(f"results/{run_id(body)}/run.json")
    definition = json.loads(file.read_text(encoding="utf-8"))["definition"]
    assert (definition["workload"], definition["command"], definition["args"]) == ("fixed-job", WAITS[:2], WAITS[2:])


def assert_replaced_when_finished(project: Project) -> None:
    """Assert that edited runs replace finished ones of the same name, and that a preview has the replacements."""
    before = uids(project)
    for name in FIXED:
        edit_run(project, name, lambda run: run.update(attempt=3))
    # A ledger's name depends on the definition, so ledgers are created and deleted.
    assert project.changes() == {"replace": 3, "create": 3, "delete": 3}
    done = project.up()
    assert done.code == 0, done.text
    after = uids(project)
    assert sorted(after) == sorted(before)
    assert {name for name in after if after[name] != before[name]} == {*FIXED}
    await_end(project, "fixed-job", "Complete")
    await_end(project, "fixed-torch", "Succeeded")
    eventually("the Pod's end", lambda: launch(project, "single-pod")["status"]["phase"] == "Succeeded")


def assert_settled_when_deleted(project: Project) -> None:
    """Assert that a launched object that was deleted by hand is not created again."""
    deleted: dict[str, Any] = launch(project, "single-pod")
    remembered = ledgers(project)
    assert project.kubectl("delete", "pod", "-n", NAMESPACE, "single-pod").code == 0
    done = project.up("--refresh")
    assert done.code == 0, done.text
    assert f"{run_id(deleted)} was launched before and is settled" in done.text
    assert uid(deleted) not in uids(project).values()
    assert ledgers(project) == remembered
