"""kube-score on the manifests of environments: its only critical findings are the reviewed ones."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster.project import ROOT
from tests.cluster.test_pods import make_environment
from tests.copies import copy_into
from trainstack.objects.labels import Manifest
from trainstack.review.checkout_manifests import checkout_manifests
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.toolchain import tools

pytestmark = pytest.mark.cluster

CRITICAL = 1
"""The grade of kube-score's critical findings."""
REVIEWED = {
    "container-image-pull-policy": "images have digests, or tags of their content: a second pull would give the same",
    "container-security-context-user-group-id": "it wants ids above 10000, which images and volumes seldom know",
    "container-ephemeral-storage-request-and-limit": "a queue without quota for disk admits no pod that asks for it",
    "container-security-context-readonlyrootfilesystem": "programs write beside their code, controllers certificates",
    "container-resources": "controllers and runs have the limits that their release and their owner give them",
    "pod-networkpolicy": "the API server calls controllers' webhooks, from addresses that differ by cluster",
}
"""The accepted findings, by kube-score's id of the check, with the reason."""
OF_CONTROLLERS = {"pod-networkpolicy"}
"""The findings that are accepted for Deployments only."""


def make_project(folder: Path) -> Path:
    """Write a project with one environment that has all kinds of pods, and return its folder."""
    (folder / ".trainstack").symlink_to(ROOT / ".trainstack")
    copy_into(folder, "defaults.yaml", "sweeps", "workloads")
    (folder / "Pulumi.strict.yaml").write_text(yaml.safe_dump({"config": make_environment()}))
    return folder


def with_pods(bodies: list[Manifest]) -> list[Manifest]:
    """Return the objects, with the pods of kinds that kube-score does not know."""
    companions = [body for body in bodies if body["kind"] == "TrainingRuntime"]
    return [
        *bodies,
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{body['metadata']['name']}-{pods.name}",
                    "namespace": body["metadata"]["namespace"],
                    "labels": pods.template["metadata"]["labels"],
                },
                "spec": dict(pods.spec),
            }
            for body in bodies
            if body["kind"] not in ("Job", "Pod")
            for pods in launched_pods(body, companions)
        ),
    ]


def critical_findings(folder: Path, bodies: list[Manifest]) -> set[tuple[str, str]]:
    """Return check and object of the critical findings."""
    file = folder / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    words = [str(tools.program("kube-score")), "score", "--output-format", "json", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout, done.stderr
    return {
        (check["check"]["id"], scored_object["object_name"])
        for scored_object in json.loads(done.stdout)
        for check in scored_object["checks"] or ()
        if check["grade"] == CRITICAL and not check["skipped"] and not check["check"]["optional"]
    }


def test_all_critical_findings_are_reviewed(tmp_path: Path) -> None:
    """The environment has all operators and all kinds of runs; every entry of the list is needed."""
    tools.ensure(["kube-score"])
    root = make_project(tmp_path)
    bodies = with_pods(checkout_manifests(root, "strict", commit="", with_releases=True, use_cache=True))
    kinds = {body["kind"] for body in bodies}
    assert {"Deployment", "Job", "NetworkPolicy", "Pod", "PyTorchJob", "TrainJob", "JobSet"} <= kinds
    found = critical_findings(tmp_path, bodies)
    assert {(check, name) for check, name in found if check not in REVIEWED} == set()
    assert {name for check, name in found if check in OF_CONTROLLERS and not name.startswith("Deployment/")} == set()
    assert {check for check, _ in found} == REVIEWED.keys()


def test_a_critical_finding_is_found(tmp_path: Path) -> None:
    """A pod without a security context, in a namespace without a NetworkPolicy."""
    tools.ensure(["kube-score"])
    spec = {"containers": [{"name": "main", "image": "busybox:latest"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "open"}, "spec": spec}
    found = {check for check, _ in critical_findings(tmp_path, [pod])}
    assert {"container-image-tag", "pod-networkpolicy", "container-resources"} <= found
