"""Both layers in separate stacks: a platform, and teams that use it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.lab import HELD, MOUNT, NAMESPACE, OPEN, await_end, outputs, run_id, team_config, unmanaged_run
from tests.cluster.project import Project
from trainstack.local_cluster.cluster import LocalCluster

pytestmark = pytest.mark.cluster


def test_a_platform_exports_what_teams_need(lab: Project) -> None:
    """The outputs have namespaces, queues and commands, and nothing about runs."""
    assert outputs(lab) == {
        "schema": 1,
        "namespaces": [NAMESPACE],
        "storageClasses": [],
        "operators": {},
        "clusterQueues": [f"{NAMESPACE}-{OPEN}", f"{NAMESPACE}-{HELD}"],
        "localQueues": [f"{NAMESPACE}/{OPEN}", f"{NAMESPACE}/{HELD}"],
        "retained": ["Namespace lab: volumes of other stacks may be in it"],
        "commands": {"status": "trainstack status -s lab", "wait": "trainstack wait -s lab"},
    }


def test_a_team_can_use_only_the_queues_of_its_platform(lab: Project) -> None:
    """An unknown queue is refused before anything is created; with an existing one, the run completes."""
    project = lab.other_stack("team", team_config(lab.stack, unmanaged_run("brief", queue="opne", command=["true"])))
    try:
        for done in (project.pulumi("preview"), project.up()):
            assert done.code != 0
            assert (
                "workloads.runs[brief].queue: platform stack organization/trainstack/lab has no local queue lab/opne; "
                "did you mean open? (or ask the platform's owner to declare it)"
            ) in done.text
            assert "Traceback" not in done.text
        selector = f"trainstack.dev/stack={project.stack}"
        assert project.select("persistentvolumeclaims,configmaps,jobs", selector, NAMESPACE) == []

        project.edit_stack(lambda config: config["trainstack:workloads"]["runs"][0].update(queue=OPEN))
        done = project.up()
        assert done.code == 0, done.text
        body = await_end(project, "brief", "Complete")
        run = run_id(body)
        assert outputs(project) == {
            "schema": 1,
            "localQueues": [f"{NAMESPACE}/{OPEN}", f"{NAMESPACE}/{HELD}"],
            "volumes": [f"{NAMESPACE}/lab"],
            "runs": [f"{NAMESPACE}/{body['metadata']['name']}"],
            "waiting": {},
            "sweeps": {},
            "waitingTrials": {},
            "protected": [],
            "retained": [],
            "commands": {
                "status": "trainstack status -s team",
                "wait": "trainstack wait -s team",
                f"fetch {run}": f"trainstack fetch {run} -s team",
            },
        }
    finally:
        project.take_down()


def static_config(folder: Path) -> dict[str, Any]:
    """Return a stack of both layers with two volumes in folders of the node; the claim selects one of them."""

    def on_host(name: str, **changes: Any) -> dict[str, Any]:
        spec = {"storageClass": "lab-manual", "size": "1Gi", "accessModes": ["ReadWriteOnce"]}
        return {"name": name, "hostPath": str(folder / name), **spec, **changes}

    command = ["sh", "-c", f"echo written > {MOUNT}/file"]
    return {
        "trainstack:environment": {"namespaces": [{"name": "lab-static"}]},
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:storage": {
            "classes": [{"name": "lab-manual", "provisioner": "kubernetes.io/no-provisioner"}],
            "persistentVolumes": [on_host("lab-plain"), on_host("lab-labelled", labels={"for": "results"})],
            "volumes": [
                {
                    "name": "lab",
                    "namespace": "lab-static",
                    "storageClass": "lab-manual",
                    "size": "1Gi",
                    "accessModes": ["ReadWriteOnce"],
                    "selector": {"for": "results"},
                    "retain": False,
                }
            ],
        },
        "trainstack:workloads": {
            "runs": [unmanaged_run("writer", namespace="lab-static", queue=None, command=command)]
        },
    }


def test_a_static_volume_is_selected_by_its_labels(installed: Project, cluster: LocalCluster) -> None:
    """The pod's file is in the node's folder. The volume outlives the stack, and the outputs name it."""
    folder = cluster.state / "volumes" / "static"
    names = ("lab-plain", "lab-labelled")
    for name in names:
        (folder / name).mkdir(parents=True)
        # Kubernetes does not change the owner of a hostPath, so the folder must be writable for the pod's user.
        (folder / name).chmod(0o777)
    project = installed.other_stack("static", static_config(folder))
    try:
        done = project.up()
        assert done.code == 0, done.text
        await_end(project, "writer", "Complete", namespace="lab-static")
        assert (folder / "lab-labelled" / "file").read_text() == "written\n"
        assert list((folder / "lab-plain").iterdir()) == []
        claim = project.get("persistentvolumeclaims", "lab", "lab-static")
        assert claim["spec"]["volumeName"] == "lab-labelled"
        retained = outputs(project)["retained"]
        assert [entry.partition(":")[0] for entry in retained] == [f"PersistentVolume {name}" for name in names]
    finally:
        project.take_down()
        try:
            left = project.get("persistentvolumes")["items"]
            assert set(names) <= {body["metadata"]["name"] for body in left}
        finally:
            project.kubectl("delete", "persistentvolumes", *names)
            shutil.rmtree(folder)
