"""Which record a run's is, and when data is brought: `trainstack fetch`, and the end of `trainstack up`."""

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

from tests.unit.checks.environment_cases import check_of, dispatching
from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, write
from trainstack.cli import deploy, files
from trainstack.cli.session import Session
from trainstack.objects.labels import LAUNCH, WORKLOAD
from trainstack.objects.labels import RUN as RUN_LABEL
from trainstack.runs.records import Ledger
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import ClusterKubeConfig, MultiKueueCluster, MultiKueueConfig
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
    """A volume behind a loader of our helper image."""
    return make_volume(tmp_path, monkeypatch)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The loaders that were started: their namespaces and volumes."""
    loaders: Started = []

    @contextmanager
    def start(_: Settings, namespace: str, volume: str) -> Iterator[Loader]:
        loaders.append((namespace, volume))
        yield LOADER

    monkeypatch.setattr(files, "data_loader", start)
    monkeypatch.setattr(deploy, "data_loader", start)
    return loaders


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """The session of an environment with these workloads, which commands open too."""

    def make(*declared: dict[str, Any]) -> Session:
        volume = {"name": "training", "namespace": "research", "storage_class": "shared", "size": "1Gi"}
        settings = Settings.model_validate(
            {
                "stack": "dev",
                "storage": {"volumes": ({**volume, "access_modes": ("ReadWriteMany",)},)},
                "workloads": {"runs": declared},
            }
        )
        made = Session(tmp_path, "dev")
        made.__dict__["loaded"] = SimpleNamespace(settings=settings)
        monkeypatch.setattr(Session, "open", lambda _: made)
        monkeypatch.setattr(files, "read_bodies", lambda _: [])
        return made

    return make


def make_workload(name: str, **changes: Any) -> dict[str, Any]:
    """A managed Job that is recorded on a volume of its name."""
    words = {"command": ("true",), "image": {"name": "busybox"}, "record": {"volume": f"{name}-runs"}}
    return {"name": name, "kind": "Job", "namespace": "research", **words, **changes}


def make_ledger(workload: str, namespace: str = "research") -> Ledger:
    """The ledger of a run."""
    run = f"{workload}-{RUN}"
    return Ledger(run_id=run, workload=workload, namespace=namespace, attempt=1, launch_name=f"{run}-000000", launch={})


def unmanaged(name: str) -> dict[str, Any]:
    """A workload without a record."""
    return make_workload(name, managed=False, record=None)


def test_a_run_is_of_the_workload_that_its_id_names(
    tmp_path: Path, volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """Not of another whose name the id begins with too."""
    session(make_workload("digits"), make_workload("digits-small"))
    write(volume.root / "runs" / f"digits-small-{RUN}", {"_SUCCESS": "{}"})
    files.fetch(f"digits-small-{RUN}", "dev", to=tmp_path / "to")
    assert started == [("research", "digits-small-runs")]


def make_live(run_id: str, created: str) -> dict[str, Any]:
    """The Job of a run."""
    marks = {RUN_LABEL: run_id, LAUNCH: f"{run_id}-000000", WORKLOAD: run_id.rpartition("-")[0]}
    metadata = {"name": f"{run_id}-000000", "namespace": "research", "creationTimestamp": created, "labels": marks}
    return {"kind": "Job", "metadata": metadata, "spec": {}, "status": {}}


def test_a_workload_names_its_latest_run(
    monkeypatch: pytest.MonkeyPatch, volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """Of those that have an object in the cluster, whatever their order."""
    opened = session(make_workload("digits"), make_workload("digits-small"))
    ids = ("digits-aaaaaaaaaa", "digits-bbbbbbbbbb", "digits-cccccccccc", "digits-small-dddddddddd")
    days = ("2026-11-03", "2026-11-05", "2026-11-04", "2026-11-06")
    bodies = [make_live(run_id, f"{day}T00:00:00Z") for run_id, day in zip(ids, days, strict=True)]
    monkeypatch.setattr(files, "read_bodies", lambda _: bodies)
    write(volume.root / "runs" / "digits-bbbbbbbbbb", {"_SUCCESS": "{}"})
    files.fetch("digits", "dev", to=None)
    assert (opened.results / "digits-bbbbbbbbbb" / "_SUCCESS").is_file()


def test_a_workload_without_a_run_in_the_cluster_is_named(
    monkeypatch: pytest.MonkeyPatch, session: Callable[..., Session], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the place of earlier records; another workload whose name begins alike is not taken for it."""
    session(make_workload("digits"), make_workload("digits-small"))
    monkeypatch.setattr(files, "read_bodies", lambda _: [make_live("digits-small-aaaaaaaaaa", "2026-11-03T00:00:00Z")])
    with pytest.raises(typer.Exit):
        files.fetch("digits", "dev")
    shown = " ".join(capsys.readouterr().err.split())
    assert "no run of digits has an object in the cluster" in shown
    assert "`trainstack ls digits-runs:runs -s dev`" in shown


def test_a_ledger_says_whose_run_it_is(volume: FakeVolume, started: Started, session: Callable[..., Session]) -> None:
    """And in which namespace it was launched, also when the workload has moved."""
    opened = session(make_workload("digits"), make_workload("digits-small"))
    write(volume.root / "runs" / f"digits-small-{RUN}", {"_SUCCESS": "{}"})
    record = files.fetch_run(opened, make_ledger("digits-small", namespace="before"), list)
    assert record is not None
    assert (record / "_SUCCESS").is_file()
    assert started == [("before", "digits-small-runs")]


def test_a_run_that_is_not_recorded_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, volume: FakeVolume, started: Started, session: Callable[..., Session]
) -> None:
    """Nor is one whose workload is declared no more; the others are fetched."""
    opened = session(unmanaged("hello"), make_workload("digits"))
    ledgers = (make_ledger("gone"), make_ledger("hello"), make_ledger("digits"))
    monkeypatch.setattr(deploy, "read_runs", lambda _: SimpleNamespace(ledgers=ledgers))
    write(volume.root / "runs" / f"digits-{RUN}", {"_SUCCESS": "{}"})
    deploy._fetch_results(opened)
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
    monkeypatch.setattr(files, "read_bodies", read)
    write(volume.root / "runs" / run_id, {"_SUCCESS": "{}"})
    files.fetch("digits", "dev")
    assert started == [("research", "digits-runs")]
    assert read.call_count == 1


def test_a_run_whose_cluster_is_unknown_does_not_end_up(
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is named with the remedy, and the other runs are fetched; the launches are listed once."""
    gone, here = make_workload("gone", queue="research"), (make_workload("digits"), make_workload("digits-small"))
    opened, read = session(gone, *here), Mock(return_value=[])
    dispatch_to(opened, "west", "east")
    monkeypatch.setattr(files, "read_bodies", read)
    ledgers = tuple(map(make_ledger, ("gone", "digits", "digits-small")))
    monkeypatch.setattr(deploy, "read_runs", lambda _: SimpleNamespace(ledgers=ledgers))
    for name in ("digits", "digits-small"):
        write(volume.root / "runs" / f"{name}-{RUN}", {"_SUCCESS": "{}"})
    deploy._fetch_results(opened)
    assert started == [("research", "digits-runs"), ("research", "digits-small-runs")]
    assert read.call_count == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert f"gone-{RUN} has no object that names the cluster to which it was dispatched: east, west" in shown
    assert f"trainstack fetch gone-runs:runs/gone-{RUN} -s ENV" in shown


def test_asked_for_a_run_without_a_record_it_says_so(
    session: Callable[..., Session], capsys: pytest.CaptureFixture[str]
) -> None:
    """And where there is something to read."""
    session(unmanaged("hello"))
    with pytest.raises(typer.Exit):
        files.fetch(f"hello-{RUN}", "dev")
    assert f"trainstack logs hello-{RUN}" in capsys.readouterr().err


def test_names_are_listed_as_they_are(
    volume: FakeVolume, started: Started, session: Callable[..., Session], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also those that are no text; a line break is written as `sha256sum` writes it, and read by it."""
    session()
    for name in (b"caf\xe9", b"a\nb\\c"):
        (volume.root / os.fsdecode(name)).touch()
    files.ls("training:", "dev")
    sys.stdout.flush()
    printed, digest = capfdbinary.readouterr().out, hashlib.sha256().hexdigest().encode()
    assert printed == b"\\" + digest + b"  a\\nb\\\\c\n" + digest + b"  caf\xe9\n"
    subprocess.run(["sha256sum", "-c"], cwd=volume.root, input=printed, check=True, capture_output=True)


def prepared(session: Callable[..., Session], tmp_path: Path, committed: str, made: str) -> Session:
    """A session whose run `digits` waits for data; one manifest is committed, and another may be made."""
    (tmp_path / "prepare_digits.py").write_text(PREPARE.format(manifest=made))
    (tmp_path / "data.json").write_text(committed)
    data = {"manifest": "data.json", "volume": "training", "path": "data/digits", "prepare": "prepare_digits"}
    return session(make_workload("digits", data=data), make_workload("digits-small"))


def waiting(monkeypatch: pytest.MonkeyPatch, workload: str) -> None:
    """A run of this workload is active, and no other."""
    launch = SimpleNamespace(run_id=f"{workload}-{RUN}", active=True)
    monkeypatch.setattr(deploy, "launch_bodies", lambda *_: [launch])
    monkeypatch.setattr(deploy, "live_launch", lambda body: body)


def test_data_of_another_manifest_is_replaced(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
) -> None:
    """A run waits for the committed manifest, not for any."""
    opened = prepared(session, tmp_path, committed='{"now": 1}', made='{"now": 1}')
    there = write(volume.root / "data" / "digits", {"manifest.json": json.dumps({"before": 1}), "images": "before"})
    waiting(monkeypatch, "digits")
    deploy._upload_data(opened)
    assert (there / "manifest.json").read_text() == '{"now": 1}'
    assert (there / "images").read_text() == "images"


def test_data_that_is_complete_is_not_made_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
) -> None:
    """By the digests in its manifest; a file that was changed or is missing counts."""
    manifest = json.dumps({"files": {"images": {"sha256": hashlib.sha256(b"images").hexdigest(), "size": 6}}})
    opened = prepared(session, tmp_path, committed=manifest, made=manifest)
    made: list[Path] = []
    make = deploy._make_data

    def noted(*given: Any) -> None:
        made.append(given[-1])
        make(*given)

    monkeypatch.setattr(deploy, "_make_data", noted)
    waiting(monkeypatch, "digits")
    for _ in range(2):
        deploy._upload_data(opened)
    folder = opened.state / "data" / "digits"
    assert made == [folder]
    (folder / "images").write_text("changed")
    deploy._upload_data(opened)
    (folder / "images").unlink()
    deploy._upload_data(opened)
    assert made == [folder] * 3
    assert (volume.root / "data" / "digits" / "images").read_text() == "images"


def test_what_was_prepared_has_to_be_what_is_committed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Else the run would wait in vain: both digests and the remedy are told, and nothing is sent."""
    opened = prepared(session, tmp_path, committed='{"now": 1}', made='{"other": 1}')
    waiting(monkeypatch, "digits")
    with pytest.raises(typer.Exit):
        deploy._upload_data(opened)
    said = capsys.readouterr().err
    assert all(hashlib.sha256(text.encode()).hexdigest() in said for text in ('{"now": 1}', '{"other": 1}'))
    assert "to data.json" in said
    assert started == []


def test_only_a_run_that_waits_gets_data(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: FakeVolume,
    started: Started,
    session: Callable[..., Session],
) -> None:
    """Not another workload whose name its id begins with."""
    opened = prepared(session, tmp_path, committed="{}", made="{}")
    waiting(monkeypatch, "digits-small")
    deploy._upload_data(opened)
    assert started == []
