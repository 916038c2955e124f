"""The data loader's Job, and the output of the wait for it."""

import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.make import make_mount, make_run, make_settings
from tests.unit.transfer.volume import LOADER, transfer_fails
from trainstack.cli.output import progress
from trainstack.cli.output.progress import bar
from trainstack.cli.transfers import TerminalProgress
from trainstack.live.client import Answer, ClusterError
from trainstack.objects.labels import QUEUE
from trainstack.settings.model import Cluster
from trainstack.settings.model import Loader as LoaderSettings
from trainstack.settings.sections.workloads import Resources
from trainstack.toolchain import tools
from trainstack.transfer import loader
from trainstack.transfer.errors import TransferError
from trainstack.transfer.loader import (
    IDLE_CHECK_SECONDS,
    _delete_abandoned,
    _queue_reason,
    _wait_for_pod,
    data_loader,
    loader_job,
)

LABELS = {
    "app.kubernetes.io/managed-by": "trainstack",
    "trainstack.dev/stack": "test",
    "trainstack.dev/workload": "loader",
    "trainstack.dev/launch": "loader-0a1b2c3d",
}


def test_a_loader_uses_the_queue_of_the_runs_that_use_the_volume() -> None:
    """It runs as the user of the runs, so that all may write; it ends when it is unused."""
    run = make_run(queue="research", run_as_user=1234, volumes=(make_mount(),))
    job = loader_job(make_settings(run), "research", "training", "loader-0a1b2c3d")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert job["metadata"] == {
        "name": "loader-0a1b2c3d",
        "namespace": "research",
        "labels": {**LABELS, "kueue.x-k8s.io/queue-name": "research"},
        "annotations": {"pulumi.com/skipAwait": "true"},
    }
    assert job["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 1234
    assert container["command"][-2:] == ["600", str(IDLE_CHECK_SECONDS)]
    assert container["volumeMounts"] == [{"name": "training", "mountPath": "/mnt/volume"}]
    assert container["resources"] == {
        "requests": {"cpu": "0", "memory": "0"},
        "limits": {"cpu": "1", "memory": "256Mi"},
    }
    assert (job["spec"]["activeDeadlineSeconds"], job["spec"]["ttlSecondsAfterFinished"]) == (21600, 0)


def test_an_environment_configures_its_loader() -> None:
    """The settings serve a cluster that requires a queue, certain names and whole cores."""
    labels = {
        **LABELS,
        "trainstack.dev/workload": "lightweight-job",
        "trainstack.dev/launch": "lightweight-job-0a1b2c3d",
        "kueue.x-k8s.io/queue-name": "eidf-user-queue",
    }
    whole_cores = {"cpu": "1", "memory": "1Gi"}
    chosen = LoaderSettings(
        image="busybox",
        name="lightweight-job",
        naming="generated",
        queue="eidf-user-queue",
        resources=Resources(requests=whole_cores, limits=whole_cores),
    )
    job = loader_job(make_settings(cluster=Cluster(loader=chosen)), "research", "training", "lightweight-job-0a1b2c3d")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert job["metadata"] == {
        "generateName": "lightweight-job-",
        "namespace": "research",
        "labels": labels,
        "annotations": {"pulumi.com/skipAwait": "true"},
    }
    assert container["image"] == "busybox"
    assert container["resources"] == {"requests": whole_cores, "limits": whole_cores}


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([], "queued in research: Kueue reports no reason yet"),
        (
            [{"type": "QuotaReserved", "status": "False", "message": "insufficient unused quota for cpu"}],
            "queued in research: insufficient unused quota for cpu",
        ),
        ([{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"}], ""),
    ],
)
def test_the_reason_why_a_loader_is_queued_is_kueues(conditions: list[dict[str, str]], reason: str) -> None:
    """An admitted loader has no reason."""
    assert _queue_reason([{"status": {"conditions": conditions}}], "research", suspended=True) == reason


def test_a_loader_is_queued_only_where_kueue_has_to_do_with_it() -> None:
    """It is not queued without a Workload, unless its Job is suspended."""
    assert _queue_reason([], "research", suspended=False) == ""
    assert _queue_reason([], "research", suspended=True) == "queued in research: Kueue reports no reason yet"


@pytest.mark.parametrize("path", ["../other", "data/../../etc", "caf\udce9"])
def test_a_path_is_text_and_stays_on_the_volume(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No program runs otherwise."""
    with transfer_fails():
        LOADER.command("true", path)
    assert "the path after the colon" in capsys.readouterr().err.replace("\n", " ")


def test_a_log_gets_lines_for_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every few seconds a line has the bytes, the total and the rate."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0)
    monkeypatch.setattr(progress, "UPDATE_SECONDS", 0)
    with bar("sending 1 files", 2_000_000_000, 500_000_000) as advance:
        advance(500_000_000)
    assert capsys.readouterr().err.startswith("  sending 1 files: 1.0 GB of 2.0 GB")


def fail_kubectl(monkeypatch: pytest.MonkeyPatch, error: str) -> list[str]:
    """Let every kubectl fail with this error; return the list of its verbs."""
    verbs: list[str] = []

    def kubectl(verb: str, *_: str, **__: object) -> "subprocess.CompletedProcess[bytes]":
        verbs.append(verb)
        return subprocess.CompletedProcess((), 1, b"", error.encode())

    monkeypatch.setattr(loader, "run_kubectl", kubectl)
    monkeypatch.setattr(loader, "kubectl_command", lambda *words, **_: [*words])
    monkeypatch.setattr(loader, "start_guard", lambda words, kubeconfig: verbs.append("guard"))
    monkeypatch.setattr(tools, "kubectl", lambda: "kubectl")
    monkeypatch.setattr(loader, "new_copy", lambda context: "copy")
    monkeypatch.setattr(loader, "end_guard", lambda _: verbs.append("dismiss"))
    monkeypatch.setattr(loader, "read_loaders", lambda *_: [])
    monkeypatch.setattr(loader, "nodes_of_volume", lambda *_: [])
    return verbs


def test_an_unreachable_cluster_is_reported_before_a_loader_is_created(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is ours; no failed deletion is reported, since there was no loader."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    verbs = fail_kubectl(monkeypatch, "The connection to the server localhost:8080 was refused")
    with (
        pytest.raises(ClusterError, match="no kubeconfig at"),
        data_loader(make_settings(), "research", "training", TerminalProgress()),
    ):
        pass
    assert capsys.readouterr().err == ""
    assert verbs == []


@pytest.mark.parametrize(
    ("error", "verbs"),
    [
        ("Error from server (Forbidden): jobs.batch is forbidden", ["guard", "create", "dismiss"]),
        ("error: unexpected EOF", ["guard", "create", "delete"]),
    ],
    ids=["refused", "unknown"],
)
def test_a_loader_is_removed_only_where_it_may_have_been_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: str, verbs: list[str]
) -> None:
    """The error names what may remain, and the guard keeps it."""
    monkeypatch.setattr(loader, "reach", lambda _: None)
    called = fail_kubectl(monkeypatch, error)
    with transfer_fails(), data_loader(make_settings(), "research", "training", TerminalProgress()):
        pass
    stderr = capsys.readouterr().err
    assert f"cannot create a data loader in research: {error}" in stderr
    assert ("could not be deleted" in stderr) == ("delete" in verbs)
    assert called == verbs


def test_a_loader_that_no_command_can_wait_for_is_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next command that uses a loader in its namespace removes it; one whose command may still run is kept."""
    calls: list[tuple[str, ...]] = []

    def kubectl(*words: str, **_: object) -> "subprocess.CompletedProcess[bytes]":
        calls.append(words)
        return subprocess.CompletedProcess((), 0, b"", b"")

    now = datetime.now(UTC)
    jobs = [
        {
            "metadata": {
                "name": f"loader-{hours}",
                "namespace": "research",
                "labels": {QUEUE: "research"},
                "creationTimestamp": (now - timedelta(hours=hours)).isoformat(),
            },
            "spec": {"suspend": True},
        }
        for hours in (24, 25)
    ]
    monkeypatch.setattr(loader, "run_kubectl", kubectl)
    monkeypatch.setattr(loader, "read_loaders", lambda *_: jobs)
    _delete_abandoned(make_settings(), "research", TerminalProgress())
    assert [words[:5] for words in calls] == [("delete", "job", "loader-25", "-n", "research")]
    assert "deleted data loader research/loader-25" in capsys.readouterr().err


def test_a_loader_runs_only_on_the_nodes_that_can_mount_the_volume() -> None:
    """Nodes are selected by name: their host name labels may differ."""
    pod = loader_job(make_settings(), "research", "training", "loader-0a1b2c3d", ["a"])["spec"]["template"]["spec"]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    assert pod["affinity"] == {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    free = loader_job(make_settings(), "research", "training", "loader-0a1b2c3d")["spec"]["template"]["spec"]
    assert free == {name: value for name, value in pod.items() if name != "affinity"}


def test_a_loader_is_not_made_for_a_volume_that_another_pod_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No object is created, so none has to be deleted."""
    calls = fail_kubectl(monkeypatch, "unused")

    def refuse(*_: object) -> list[str]:
        raise TransferError("held")

    monkeypatch.setattr(loader, "reach", lambda _: None)
    monkeypatch.setattr(loader, "nodes_of_volume", refuse)
    with transfer_fails(), data_loader(make_settings(), "research", "training", TerminalProgress()):
        pass
    assert calls == []


JOB = {"metadata": {"namespace": "research", "name": "loader-1", "uid": "1", "labels": {QUEUE: "research"}}}
POD = {"metadata": {"name": "loader-1-abc", "ownerReferences": [{"uid": "1"}]}, "status": {"phase": "Failed"}}
FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached its limit"}


def wait_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *answers: tuple[Answer, Answer]
) -> str:
    """Return the error of the wait for a loader; its Job and the list of pods have these answers in order."""
    remaining = list(answers)

    def read(paths: Sequence[str], _: str | None) -> dict[str, Answer]:
        job, pods = remaining.pop(0)
        return dict(zip(paths, (job, pods, Answer(200, {"items": []})), strict=True))

    monkeypatch.setattr(loader, "read", read)
    monkeypatch.setattr(loader, "_POLL_SECONDS", 0)
    with transfer_fails():
        _wait_for_pod(JOB, "loader-1", None, TerminalProgress())
    assert remaining == []
    return capsys.readouterr().err


def test_a_loader_that_has_failed_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has the Job's reason and the last state of its pod."""
    failed = Answer(200, {"status": {"conditions": [FAILED]}})
    error = wait_error(monkeypatch, capsys, (failed, Answer(200, {"items": [POD]})))
    assert "Failed, BackoffLimitExceeded Job has reached its limit; last state of its pod: loader-1-abc Failed" in error


def test_a_deleted_loader_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its TTL deletes a failed loader at once: the error has the last known state of its pod."""
    present, deleted = Answer(200, {}), Answer(404, {})
    error = wait_error(
        monkeypatch, capsys, (present, Answer(200, {"items": [POD]})), (deleted, Answer(200, {"items": []}))
    )
    assert "ended: deleted; last state of its pod: loader-1-abc Failed" in error


def test_a_loader_whose_pods_may_not_be_seen_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the missing right."""
    assert "may not list pods in research" in wait_error(monkeypatch, capsys, (Answer(200, {}), Answer(403, {})))
