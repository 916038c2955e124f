"""`trainstack check --cluster` where the cluster cannot be read."""

import json
from pathlib import Path

import pytest

from tests.unit.make import make_distributed, make_runtime_run
from tests.unit.preflight.cluster_cases import make_live
from tests.unit.runs.launches import make_launch
from trainstack.cli import check_cluster as command
from trainstack.cli.check_cluster import add_cluster_findings, build_manifests
from trainstack.cli.session import Session
from trainstack.preflight.file_checks import examine
from trainstack.preflight.finding import CheckResult, Finding
from trainstack.preflight.rule import Violation
from trainstack.preflight.rules.images import pins_missing
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.build import companions, manifest
from trainstack.settings.loading.load import load_with_places
from trainstack.stack_objects.stack_objects import StackObjects

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "lab", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "me", "user": {"token": "x"}}],
    "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    "current-context": "lab",
}


def test_an_unknown_context_is_an_error_at_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the context and the remedy."""
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    text = "config:\n  trainstack:cluster:\n    context: lba\n"
    (tmp_path / "Pulumi.test.yaml").write_text(text, encoding="utf-8")
    known = Finding.from_violation(pins_missing.rule, Violation("environment.pinned", "x", "y"))
    checked = add_cluster_findings(
        CheckResult([known], []), Session(tmp_path, "test"), load_with_places(tmp_path, "test")
    )
    assert checked.findings[0] == known
    (finding,) = checked.findings[1:]
    assert (finding.id, finding.severity, finding.path) == ("cluster-unreachable", "error", "cluster.context")
    assert str(finding.where) == "Pulumi.test.yaml:3"
    assert "context 'lba'" in finding.message
    assert "kubectl config get-contexts" in finding.remedy


def test_a_bug_where_manifests_are_built_is_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without manifests nothing would be sent as a dry run, and the rules over the answers would pass."""
    (tmp_path / "Pulumi.test.yaml").write_text("config:\n  trainstack:cluster: {context: lab}\n", encoding="utf-8")

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(StackObjects, "from_files", broken)
    with pytest.raises(ValueError, match="a bug"):
        build_manifests(tmp_path, load_with_places(tmp_path, "test").settings)


KUEUE = "{manifest: {version: v0.15.2, url: 'https://example.org/kueue.yaml', sha256: " + "a" * 64 + "}}"
NAMESPACE = "  trainstack:environment: {namespaces: [{name: research}]}\n"


@pytest.mark.parametrize(
    ("config", "broken", "expected"),
    [
        (NAMESPACE, False, []),
        (f"{NAMESPACE}  trainstack:operators: {{kueue: {KUEUE}}}\n", False, [("unknown", "operators")]),
        (NAMESPACE, True, [("error", "workloads")]),
    ],
)
def test_what_cannot_be_built_is_a_finding(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    broken: bool,
    expected: list[tuple[str, str]],
) -> None:
    """No dry run of the object was made."""

    def refuse(*_: object) -> None:
        raise WorkloadError("workload train: too large")

    (tmp_path / "Pulumi.test.yaml").write_text(f"config:\n{config}", encoding="utf-8")
    monkeypatch.setattr(command, "read_environment", lambda *_: make_live())
    monkeypatch.setattr(command, "unread_images", lambda *_: ())
    monkeypatch.setattr(command, "read_image_users", lambda *_: ())
    if broken:
        monkeypatch.setattr(StackObjects, "from_files", refuse)
    checked = add_cluster_findings(CheckResult([], []), Session(tmp_path, "test"), load_with_places(tmp_path, "test"))
    findings = [finding for finding in checked.findings if finding.id == "manifests-unbuilt"]
    assert [(finding.severity, finding.path) for finding in findings] == expected
    assert all("Pulumi.test.yaml" in str(finding.where) for finding in findings if finding.path == "operators")


def test_a_name_that_is_neither_declared_nor_on_the_cluster_is_one_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding about the files remains, since its remedy is in this repository."""
    volume = "{name: data, namespace: research, storageClass: nfs, size: 1Gi, accessModes: [ReadWriteMany]}"
    text = f"config:\n{NAMESPACE}  trainstack:storage: {{volumes: [{volume}]}}\n"
    (tmp_path / "Pulumi.test.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(command, "read_environment", lambda *_: make_live())
    monkeypatch.setattr(command, "unread_images", lambda *_: ())
    monkeypatch.setattr(command, "read_image_users", lambda *_: ())
    loaded = load_with_places(tmp_path, "test")
    in_files = examine(StackObjects(loaded.settings), tmp_path, loaded.places)
    checked = add_cluster_findings(in_files, Session(tmp_path, "test"), loaded)
    assert [(finding.id, finding.remedy) for finding in checked.findings] == [
        ("storage-class-unknown", "declare it under storage.classes")
    ]
    assert checked.findings == in_files.findings


def test_a_trainjob_is_sent_as_a_dry_run_if_the_cluster_has_its_runtime() -> None:
    """Trainer refuses a TrainJob without its runtime, so the runtime of a launch is sent instead."""
    launch = make_launch()
    for workload, kind in ((make_runtime_run(), "TrainJob"), (make_distributed(kind="TrainJob"), "TrainingRuntime")):
        objects = [*companions(workload, "dev", launch), manifest(workload, "dev", launch)]
        assert [body["kind"] for body in command._manifests_to_dry_run(objects)] == [kind]
