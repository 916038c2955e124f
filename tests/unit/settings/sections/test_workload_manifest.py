"""The settings of workloads that are manifests."""

from pathlib import Path

from tests.rendered_manifests import render

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, creationTimestamp: null}
spec:
  template:
    metadata: {creationTimestamp: null}
    spec: {restartPolicy: Never, containers: [{name: a, image: a, resources: {}}]}
"""
WRAPPED = """
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: wrapped}
spec:
  components:
  - template: {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: a}]}}
"""


def test_the_empty_status_that_kubectl_prints_is_left_out(tmp_path: Path) -> None:
    """`kubectl create job --dry-run=client -o yaml` prints it, and people keep it."""
    assert render(tmp_path, JOB + "status: {}\n") == render(tmp_path, JOB)
    assert "status" not in render(tmp_path, JOB + "status:\n")


def test_an_object_beside_a_manifest_lists_the_paths_of_its_pods(tmp_path: Path) -> None:
    pods = [{"name": "a", "template": "spec.components[0].template"}]
    launch = render(tmp_path, WRAPPED, object={"framework": "workload.codeflare.dev/appwrapper", "pods": pods})
    template = launch["spec"]["components"][0]["template"]
    assert template["metadata"]["labels"]["trainstack.dev/role"] == "a"
    assert template["spec"] == {"containers": [{"name": "a", "image": "a"}]}
