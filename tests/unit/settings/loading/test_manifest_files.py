"""Manifests of workloads in files: where they are named, what is read from them, and their faults."""

from pathlib import Path

import pytest

from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.sections.workloads import Workload

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  generateName: pasted-
  namespace: lab
  labels: {kueue.x-k8s.io/queue-name: fast, kueue.x-k8s.io/priority-class: high}
spec:
  suspend: yes
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: busybox:1.37
          command: [echo, "1"]
      volumes:
        - {name: scripts, configMap: {name: scripts, defaultMode: 0755}}
"""


def write(root: Path, runs: str, files: dict[str, str]) -> None:
    sections = f"  trainstack:environment: {{namespaces: [{{name: lab}}]}}\n  trainstack:workloads: {{runs: {runs}}}\n"
    for name, text in {"Pulumi.lab.yaml": f"config:\n{sections}", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def load_run(root: Path) -> Workload:
    (run,) = load_with_places(root, "lab").settings.workloads.runs
    return run


def faults(root: Path) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        load_with_places(root, "lab")
    return [f"{finding.where}: {finding.message}" for finding in raised.value.findings]


@pytest.mark.parametrize(
    ("runs", "files"),
    [
        ("[{name: pasted}]", {"workloads/pasted/workload.yaml": JOB}),
        (
            "[{name: pasted}]",
            {"workloads/pasted/workload.yaml": "manifest: job.yaml", "workloads/pasted/job.yaml": JOB},
        ),
        ("[{name: pasted, manifest: jobs/job.yaml}]", {"jobs/job.yaml": JOB}),
        ("[{name: pasted, from: other}]", {"workloads/other/workload.yaml": f"# A comment.\n---\n{JOB}"}),
    ],
)
def test_a_manifest_has_the_settings_of_its_launch(tmp_path: Path, runs: str, files: dict[str, str]) -> None:
    write(tmp_path, runs, files)
    run = load_run(tmp_path)
    assert (run.name, run.kind, run.namespace, run.queue, run.priority) == ("pasted", "Job", "lab", "fast", "high")
    assert run.manifest is not None
    assert run.manifest["spec"]["suspend"] is True
    assert run.manifest["spec"]["template"]["spec"]["volumes"][0]["configMap"]["defaultMode"] == 0o755
    assert not run.managed


def test_values_have_the_place_of_the_manifest(tmp_path: Path) -> None:
    write(tmp_path, "[{name: pasted}]", {"workloads/pasted/workload.yaml": JOB})
    environment = load_with_places(tmp_path, "lab")
    path = "workloads.runs[pasted].manifest.spec.template.spec.containers[main].image"
    assert str(environment.place_of(path)) == "workloads/pasted/workload.yaml:14"


def test_an_environment_overrides_values_of_the_manifest(tmp_path: Path) -> None:
    """Containers are merged by name, and settings take precedence over the labels."""
    change = "{spec: {parallelism: 2, template: {spec: {containers: [{name: main, image: 'busybox:2'}]}}}}"
    write(tmp_path, f"[{{name: pasted, queue: slow, manifest: {change}}}]", {"workloads/pasted/workload.yaml": JOB})
    run = load_run(tmp_path)
    assert run.queue == "slow"
    assert run.manifest is not None
    assert run.manifest["spec"]["parallelism"] == 2
    (container,) = run.manifest["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "main", "image": "busybox:2", "command": ["echo", "1"]}


def test_another_file_replaces_the_manifest(tmp_path: Path) -> None:
    other = JOB.replace("suspend: yes", "backoffLimit: 1")
    files = {"workloads/pasted/workload.yaml": JOB, "other.yaml": other}
    write(tmp_path, "[{name: pasted, manifest: other.yaml}]", files)
    run = load_run(tmp_path)
    assert run.manifest is not None
    assert run.manifest["spec"].keys() == {"backoffLimit", "template"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("busybox:1.37", "3"), "workload.yaml:14: must be a string"),
        (("kind: Job\n", ""), "workload.yaml:1: "),
        (("metadata:\n", "metadata:\n  uid: 1-2\n"), "manifest.metadata.uid is written by the cluster"),
        (
            ("spec:\n  suspend: yes", "status: {active: 1}\nspec:\n  suspend: yes"),
            "manifest.status is written by the cluster",
        ),
        (("spec:\n  suspend: yes", "queue: a\nspec:\n  suspend: yes"), "manifest.queue is no field of an object"),
        (("batch/v1", "batch/v1beta1"), "Job of batch/v1beta1 is not supported"),
        (("kind: Job", "kind: PaddleJob"), "the paths of the pods of kind PaddleJob are not known"),
        (("spec:\n  suspend: yes", "---\nspec:\n  suspend: yes"), "a manifest is one object"),
    ],
)
def test_faults_of_a_manifest(tmp_path: Path, change: tuple[str, str], expected: str) -> None:
    write(tmp_path, "[{name: pasted}]", {"workloads/pasted/workload.yaml": JOB.replace(*change)})
    assert expected in "\n".join(faults(tmp_path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, "[{name: pasted, manifest: jobs/job.yaml}]", {})
    assert faults(tmp_path) == ["Pulumi.lab.yaml:3: manifest jobs/job.yaml does not exist"]


def test_settings_that_are_part_of_the_manifest_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "[{name: pasted, image: {name: 'busybox:2'}}]", {"workloads/pasted/workload.yaml": JOB})
    assert faults(tmp_path) == ["Pulumi.lab.yaml:3: image is part of the manifest"]


def test_a_later_attempt_cannot_be_adopted(tmp_path: Path) -> None:
    files = {"workloads/pasted/workload.yaml": JOB}
    write(tmp_path, "[{name: pasted, adopt: true}]", files)
    assert load_run(tmp_path).adopt
    write(tmp_path, "[{name: pasted, adopt: true, attempt: 2}]", files)
    assert faults(tmp_path) == ["Pulumi.lab.yaml:3: attempt 2 was not launched elsewhere"]
