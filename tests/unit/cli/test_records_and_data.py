"""The record of a run, and the transfer of data: `trainstack fetch`, and the last stage of `trainstack up`."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import typer

from tests.unit.preflight.environment_cases import check_of, dispatching
from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, write
from trainstack.cli import run_records
from trainstack.cli.commands import files, up
from trainstack.cli.session import Session
from trainstack.objects.labels import LAUNCH, SWEEP, WORKLOAD
from trainstack.objects.labels import RUN as RUN_LABEL
from trainstack.runs.ledgers import Ledger
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import (
    MULTI_KUEUE_CONTROLLER,
    ClusterKubeConfig,
    MultiKueueCluster,
    MultiKueueConfig,
)
from trainstack.transfer.errors import DamagedRecordError
from trainstack.transfer.loader import Loader

RUN = "0123456789"
PREPARE = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
(folder / "images").write_text("images")
(folder / "manifest.json").write_text({manifest!r})
"""
Started = list[tuple[str, str]]


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeVolume:
    """Provide a volume behind a loader of our helper image."""
    return make_volume(tmp_path, monkeypatch)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Provide the namespaces and volumes of the loaders that were started."""
    loaders: Started = []

    @contextmanager
    def start(_: Settings, namespace: str, volume: str) -> Iterator[Loader]:
        loaders.append((namespace, volume))
        yield LOADER

    for module in (files, run_records, up):
        monkeypatch.setattr(module, "data_loader", start)
    return loaders


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """Return a function that makes the session of an environment with these workloads; commands open it too."""

    def make(*declared: dict[str, Any]) -> Session:
        volume = {"name": "training", "namespace": "research", "storage_class": "shared", "size": "1Gi"}
        settings = Settings.model_validate(
            {
                "stack": "dev",
                "storage": {"volumes": ({**volume, "access_modes": ("ReadWriteMany",)},)},
                "workloads": {"runs": declared},
            }
        )
        session = Session(tmp_path, "dev")
        session.__dict__["loaded"] = SimpleNamespace(settings=settings)
        monkeypatch.setattr(Session, "open", lambda _: session)
        monkeypatch.setattr(run_records, "read_bodies", lambda _: [])
        return session

    return make


def make_workload(name: str, **changes: Any) -> dict[str, Any]:
    """Return a managed Job that is recorded on a volume named after it."""
    words = {"command": ("true",), "image": {"name": "busybox"}, "record": {"volume": f"{name}-runs"}}
    return {"name": name, "kind": "Job", "namespace": "research", **words, **changes}


def make_ledger(workload: str, namespace: str = "research") -> Ledger:
    """Return the ledger of a run."""
    run = f"{workload}-{RUN}"
    return Ledger(run_id=run, workload=workload, namespace=namespace, attempt=1, launch_name=f"{run}-000000", launch={})


def unmanaged(name: str) -> dict[str, Any]:
    """Return a workload without a record."""
    return make_workload(name, managed=False, record=None)


def test_a_run_is_of_the_workload_that_its_id_names(
    tmp_path: Path, volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """Another workload, whose name is a prefix of the id too, is not chosen."""
    session(make_workload("digits"), make_workload("digits-small"))
    write(volume.root / "runs" / f"digits-small-{RUN}", {"_SUCCESS": "{}"})
    files.fetch(f"digits-small-{RUN}", "dev", to=tmp_path / "to")
    assert started == [("research", "digits-small-runs")]


def make_live(run_id: str, created: str) -> dict[str, Any]:
    """Return the Job of a run."""
    marks = {RUN_LABEL: run_id, LAUNCH: f"{run_id}-000000", WORKLOAD: run_id.rpartition("-")[0]}
    metadata = {"name": f"{run_id}-000000", "namespace": "research", "creationTimestamp": created, "labels": marks}
    return {"kind": "Job", "metadata": metadata, "spec": {}, "status": {}}


def test_a_workload_names_its_latest_run(
    monkeypatch: pytest.MonkeyPatch, volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """Only runs with an object in the cluster count, in any order."""
    opened = session(make_workload("digits"), make_workload("digits-small"))
    ids = ("digits-aaaaaaaaaa", "digits-bbbbbbbbbb", "digits-cccccccccc", "digits-small-dddddddddd")
    days = ("2026-11-03", "2026-11-05", "2026-11-04", "2026-11-06")
    bodies = [make_live(run_id, f"{day}T00:00:00Z") for run_id, day in zip(ids, days, strict=True)]
    monkeypatch.setattr(run_records, "read_bodies", lambda _: bodies)
    write(volume.root / "runs" / "digits-bbbbbbbbbb", {"_SUCCESS": "{}"})
    files.fetch("digits", "dev", to=None)
    assert (opened.results / "digits-bbbbbbbbbb" / "_SUCCESS").is_file()


def test_a_workload_without_a_run_in_the_cluster_is_named(
    monkeypatch: pytest.MonkeyPatch, session: Callable[..., Session], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error shows where earlier records are; a workload with the same prefix is not chosen."""
    session(make_workload("digits"), make_workload("digits-small"))
    monkeypatch.setattr(
        run_records, "read_bodies", lambda _: [make_live("digits-small-aaaaaaaaaa", "2026-11-03T00:00:00Z")]
    )
    with pytest.raises(typer.Exit):
        files.fetch("digits", "dev")
    stderr = " ".join(capsys.readouterr().err.split())
    assert "no run of digits has an object in the cluster" in stderr
    assert "`trainstack ls digits-runs:runs -s dev`" in stderr


def test_a_ledger_has_the_workload_of_its_run(
    volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """The ledger also has the namespace of the launch, in case the workload has moved."""
    opened = session(make_workload("digits"), make_workload("digits-small"))
    write(volume.root / "runs" / f"digits-small-{RUN}", {"_SUCCESS": "{}"})
    record = run_records.fetch_run(opened, make_ledger("digits-small", namespace="before"), list)
    assert record is not None
    assert (record / "_SUCCESS").is_file()
    assert started == [("before", "digits-small-runs")]


def test_a_run_that_is_not_recorded_is_no_error(
    monkeypatch: pytest.MonkeyPatch, volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """A run whose workload was removed from the files is not an error either; the others are fetched."""
    opened = session(unmanaged("hello"), make_workload("digits"))
    ledgers = (make_ledger("gone"), make_ledger("hello"), make_ledger("digits"))
    monkeypatch.setattr(up, "read_runs", lambda _: SimpleNamespace(ledgers=ledgers))
    write(volume.root / "runs" / f"digits-{RUN}", {"_SUCCESS": "{}"})
    up._fetch_results(opened)
    assert started == [("research", "digits-runs")]


def dispatch_to(opened: Session, *clusters: str) -> None:
    """Let MultiKueue dispatch the queue `research` to these clusters."""
    queues = dispatching(check_of("check"), queue={}).queues
    kube_config = ClusterKubeConfig(location="secret")
    changes = {
        "multi_kueue_clusters": tuple(MultiKueueCluster(name=name, kube_config=kube_config) for name in clusters),
        "multi_kueue_configs": (MultiKueueConfig(name="workers", clusters=clusters),),
    }
    settings = opened.settings.model_copy(update={"queues": queues.model_copy(update=changes)})
    opened.__dict__["loaded"] = SimpleNamespace(settings=settings)


def test_a_run_that_was_launched_before_its_queue_dispatched_is_read_here(
    monkeypatch: pytest.MonkeyPatch, volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """Its object shows that this cluster has its volume; the launches are listed once."""
    opened, run_id = session(make_workload("digits", queue="research")), f"digits-{RUN}"
    dispatch_to(opened, "west", "east")
    read = Mock(return_value=[make_live(run_id, "2026-11-03T00:00:00Z")])
    monkeypatch.setattr(run_records, "read_bodies", read)
    write(volume.root / "runs" / run_id, {"_SUCCESS": "{}"})
    files.fetch("digits", "dev")
    assert started == [("research", "digits-runs")]
    assert read.call_count == 1


def test_a_trial_is_read_in_the_cluster_of_its_batch(
    monkeypatch: pytest.MonkeyPatch, volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """No object has the id of the trial; the Indexed Job of the sweep names the cluster."""
    opened, run_id = session(make_workload("digits", queue="research")), f"digits-{RUN}"
    dispatch_to(opened, "west", "east")
    batch = make_live("digits-bbbbbbbbbb", "2026-11-03T00:00:00Z")
    batch["metadata"]["labels"][SWEEP] = "digits"
    batch["spec"]["managedBy"] = MULTI_KUEUE_CONTROLLER
    read: list[str] = []

    def worker(settings: Settings, cluster: str) -> Settings:
        read.append(cluster)
        return settings

    monkeypatch.setattr(run_records, "read_bodies", lambda _: [batch])
    monkeypatch.setattr(
        run_records, "read_clusters_by_run", lambda bodies, _: {"digits-bbbbbbbbbb": "east"} if bodies else {}
    )
    monkeypatch.setattr(run_records, "settings_of_worker", worker)
    write(volume.root / "runs" / run_id, {"_SUCCESS": "{}"})
    files.fetch(run_id, "dev")
    assert (read, started) == (["east"], [("research", "digits-runs")])


def test_a_run_whose_cluster_is_unknown_does_not_end_up(
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The run is reported with the remedy, and the others are fetched; the launches are listed once."""
    lost, read_here = make_workload("gone", queue="research"), (make_workload("digits"), make_workload("digits-small"))
    opened, read = session(lost, *read_here), Mock(return_value=[])
    dispatch_to(opened, "west", "east")
    monkeypatch.setattr(run_records, "read_bodies", read)
    ledgers = tuple(map(make_ledger, ("gone", "digits", "digits-small")))
    monkeypatch.setattr(up, "read_runs", lambda _: SimpleNamespace(ledgers=ledgers))
    for name in ("digits", "digits-small"):
        write(volume.root / "runs" / f"{name}-{RUN}", {"_SUCCESS": "{}"})
    up._fetch_results(opened)
    assert started == [("research", "digits-runs"), ("research", "digits-small-runs")]
    assert read.call_count == 1
    stderr = " ".join(capsys.readouterr().err.split())
    assert f"gone-{RUN} has no object that names the cluster to which it was dispatched: east, west" in stderr
    assert f"trainstack fetch gone-runs:runs/gone-{RUN} -s ENV" in stderr


def test_a_damaged_record_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The results of the others are shown, and `up` ends with the errors; `fetch` of the damaged one fails too."""
    opened = session(*(make_workload(name) for name in ("lost", "odd", "digits")))
    ledgers = tuple(map(make_ledger, ("lost", "odd", "digits")))
    monkeypatch.setattr(up, "read_runs", lambda _: SimpleNamespace(ledgers=ledgers))
    for name, published in (("lost", {"result/model.pt": None}), ("odd", {}), ("digits", {})):
        run_json = json.dumps({"files": published})
        mark = json.dumps({"run_json_sha256": hashlib.sha256(run_json.encode()).hexdigest()})
        write(volume.root / "runs" / f"{name}-{RUN}", {"_SUCCESS": mark, "run.json": run_json})
    write(opened.results / f"odd-{RUN}", {"_SUCCESS": "{}", "result/metrics.jsonl": "[" * 200_000})
    with pytest.raises(typer.Exit):
        up._fetch_results(opened)
    captured = capsys.readouterr()
    assert f"digits-{RUN}" in captured.out
    stderr = " ".join(captured.err.split())
    assert f"runs/lost-{RUN} on the volume differs from its run.json" in stderr
    assert "metrics.jsonl:1: invalid JSON (it is nested more than 50 levels deep)" in stderr
    with pytest.raises(DamagedRecordError):
        files.fetch(f"lost-{RUN}", "dev")
    assert "verified" not in capsys.readouterr().out


def test_a_requested_run_without_a_record_is_an_error(
    session: Callable[..., Session], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error shows where to look for records."""
    session(unmanaged("hello"))
    with pytest.raises(typer.Exit):
        files.fetch(f"hello-{RUN}", "dev")
    assert f"trainstack logs hello-{RUN}" in capsys.readouterr().err


def test_names_are_listed_as_they_are(
    volume: FakeVolume, started: Started, session: Callable[..., Session], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Invalid text is included; a line break is escaped as by `sha256sum`, which reads it; the rest is escaped."""
    session()
    for name in (b"caf\xe9", b"a\nb\\c"):
        (volume.root / os.fsdecode(name)).touch()
    files.ls("training:", "dev")
    sys.stdout.flush()
    printed, digest = capfdbinary.readouterr().out, hashlib.sha256().hexdigest().encode()
    assert printed == b"\\" + digest + b"  a\\nb\\\\c\n" + digest + b"  caf\xe9\n"
    subprocess.run(["sha256sum", "-c"], cwd=volume.root, input=printed, check=True, capture_output=True)
    (volume.root / os.fsdecode("x\x1b[2J\u202ey\r".encode() + b"\x9b1A")).touch()
    files.ls("training:", "dev")
    sys.stdout.flush()
    assert b"  x\\x1b[2J\\u202ey\\r\\udc9b1A\n" in capfdbinary.readouterr().out


def prepared(session: Callable[..., Session], tmp_path: Path, committed: str, prepared_manifest: str) -> Session:
    """Return a session whose run `digits` waits for data, with this committed manifest and this prepared one."""
    (tmp_path / "prepare_digits.py").write_text(PREPARE.format(manifest=prepared_manifest))
    (tmp_path / "data.json").write_text(committed)
    data = {"manifest": "data.json", "volume": "training", "path": "data/digits", "prepare": "prepare_digits"}
    return session(make_workload("digits", data=data), make_workload("digits-small"))


def serve_active_run(monkeypatch: pytest.MonkeyPatch, workload: str) -> None:
    """Let one run be active, of this workload."""
    launch = SimpleNamespace(workload_name=workload, is_active=True)
    monkeypatch.setattr(up, "launch_bodies", lambda *_: [launch])
    monkeypatch.setattr(up, "live_launch", lambda body: body)


def test_data_of_another_manifest_is_replaced(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
) -> None:
    """A run waits for the committed manifest, not for any."""
    opened = prepared(session, tmp_path, committed='{"now": 1}', prepared_manifest='{"now": 1}')
    folder = write(volume.root / "data" / "digits", {"manifest.json": json.dumps({"before": 1}), "images": "before"})
    serve_active_run(monkeypatch, "digits")
    up._upload_data(opened)
    assert (folder / "manifest.json").read_text() == '{"now": 1}'
    assert (folder / "images").read_text() == "images"


def test_data_that_is_complete_is_not_made_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
) -> None:
    """The digests of the manifest decide; a changed or missing file counts as incomplete."""
    manifest = json.dumps({"files": {"images": {"sha256": hashlib.sha256(b"images").hexdigest(), "size": 6}}})
    opened = prepared(session, tmp_path, committed=manifest, prepared_manifest=manifest)
    prepared_folders: list[Path] = []
    make = up._make_data

    def recording_make(*arguments: Any) -> None:
        prepared_folders.append(arguments[-1])
        make(*arguments)

    monkeypatch.setattr(up, "_make_data", recording_make)
    serve_active_run(monkeypatch, "digits")
    for _ in range(2):
        up._upload_data(opened)
    folder = opened.private_folder / "data" / "digits"
    assert prepared_folders == [folder]
    (folder / "images").write_text("changed")
    up._upload_data(opened)
    (folder / "images").unlink()
    up._upload_data(opened)
    assert prepared_folders == [folder] * 3
    assert (volume.root / "data" / "digits" / "images").read_text() == "images"


def test_what_was_prepared_has_to_be_what_is_committed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The run would wait in vain: the error has both digests and the remedy, and nothing is transferred."""
    opened = prepared(session, tmp_path, committed='{"now": 1}', prepared_manifest='{"other": 1}')
    serve_active_run(monkeypatch, "digits")
    with pytest.raises(typer.Exit):
        up._upload_data(opened)
    stderr = capsys.readouterr().err
    assert all(hashlib.sha256(text.encode()).hexdigest() in stderr for text in ('{"now": 1}', '{"other": 1}'))
    assert "to data.json" in stderr
    assert started == []


def test_only_a_run_that_waits_gets_data(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
) -> None:
    """A workload with the same prefix gets none."""
    opened = prepared(session, tmp_path, committed="{}", prepared_manifest="{}")
    serve_active_run(monkeypatch, "digits-small")
    up._upload_data(opened)
    assert started == []
