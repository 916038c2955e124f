"""`trainstack check --cluster` where the cluster cannot be read."""

import json
from pathlib import Path

import pytest

from checks.finding import Checked, Finding
from cli.check_cluster import with_cluster
from cli.session import Session
from settings.load import load_with_places

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "lab", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "me", "user": {"token": "x"}}],
    "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    "current-context": "lab",
}


def test_an_unknown_context_is_an_error_at_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the context, and the remedy."""
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    text = "config:\n  trainstack:cluster:\n    context: lba\n"
    (tmp_path / "Pulumi.test.yaml").write_text(text, encoding="utf-8")
    known = Finding("pins-missing", "warning", "environment.pinned", "x", "y")
    checked = with_cluster(Checked([known], []), Session(tmp_path, "test"), load_with_places(tmp_path, "test"))
    assert checked.findings[0] == known
    (found,) = checked.findings[1:]
    assert (found.id, found.severity, found.path) == ("cluster-unreachable", "error", "cluster.context")
    assert str(found.where) == "Pulumi.test.yaml:3"
    assert "context 'lba'" in found.message
    assert "kubectl config get-contexts" in found.remedy
