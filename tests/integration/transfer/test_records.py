"""A finished run's record is fetched only if every file is as its run.json says."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.wrapper.pods import RUN_ID, command, run
from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, transfer_fails, write
from trainstack.transfer import chunks
from trainstack.transfer.fetch import fetch
from trainstack.transfer.volume_files import list_files

CODE = """
write(f"{output}/model.pt", "w" * 5000)
write(f"{output}/metrics.jsonl", "{}\\n")
write(f"{output}/" + os.fsdecode(b"deep/caf\\xe9\\n"))
write(f"{checkpoints}/last.ckpt")
os.symlink("last.ckpt", f"{checkpoints}/link")
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the record of a run."""
    runs = tmp_path_factory.mktemp("finished")
    assert run(runs, command(CODE))[0] == 0
    return runs / RUN_ID


@pytest.fixture
def volume(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeVolume:
    """Provide a volume with the record of a run, whose model is a big file and whose metrics are a small one."""
    monkeypatch.setattr(chunks, "BIG_FILE_BYTES", 4000)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2000)
    volume = make_volume(tmp_path, monkeypatch)
    shutil.copytree(finished, volume.root / RUN_ID, symlinks=True)
    return volume


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every regular file."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_record_arrives_with_every_file_of_its_run_json(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that run.json does not list are fetched too; a link among the checkpoints is reported."""
    record, target = volume.root / RUN_ID, tmp_path / "target"
    assert fetch(LOADER, RUN_ID, target).sent == len(contents(record))
    assert contents(target) == contents(record)
    assert fetch(LOADER, RUN_ID, target).sent == 0
    assert "1 links or special files are not fetched, for example 'checkpoints/link'" in capsys.readouterr().err
    list_files(LOADER, RUN_ID)
    assert "1 links or special files are not listed, for example 'checkpoints/link'" in capsys.readouterr().err


def replace_by_link(path: Path) -> None:
    """Replace the file as an earlier wrapper published it."""
    path.unlink()
    path.symlink_to("../../elsewhere")


Damage = tuple[Callable[[Path], object], str]


def damages_of(name: str, size: int) -> dict[str, Damage]:
    """Return what may happen to a published file, with the reason in the error."""
    file = f"result/{name}"
    return {
        f"{name} missing": (lambda record: (record / file).unlink(), f"'{file}' is missing"),
        f"{name} a link": (lambda record: replace_by_link(record / file), f"'{file}' is a link"),
        f"{name} changed": (lambda record: (record / file).write_text("v" * size), f"'{file}' has another content"),
        f"{name} cut off": (lambda record: os.truncate(record / file, 1), f"'{file}' has 1 bytes instead of {size}"),
    }


FILES = {
    **damages_of("model.pt", 5000),
    **damages_of("metrics.jsonl", 3),
    "an odd name": (lambda record: shutil.rmtree(record / "result/deep"), "'result/deep/caf\\udce9\\n' is missing"),
}
RECORDS: dict[str, Damage] = {
    "one more": (lambda record: (record / "result/more").write_text("x"), "'result/more' is not in run.json"),
    "a link more": (lambda record: (record / "result/more").symlink_to("model.pt"), "'result/more' is not in run.json"),
    "a mark more": (
        lambda record: (record / "result/_SUCCESS").write_text("{}"),
        "'result/_SUCCESS' is not in run.json",
    ),
    "run.json missing": (lambda record: (record / "run.json").unlink(), "'run.json' is missing"),
    "run.json changed": (
        lambda record: (record / "run.json").write_text((record / "run.json").read_text().replace("5000", "5001")),
        "'run.json' is not the one that _SUCCESS confirms",
    ),
    "run.json damaged": (lambda record: (record / "run.json").write_text("[" * 200_000), "'run.json' is damaged"),
    "the copy changed": (
        lambda record: (record / "result/.run.json").write_text("{}"),
        "differs from result/.run.json",
    ),
    "the mark emptied": (lambda record: (record / "_SUCCESS").write_text(""), "that _SUCCESS confirms"),
    "the mark changed": (lambda record: (record / "_SUCCESS").write_text("{}"), "that _SUCCESS confirms"),
}
DAMAGES = {**FILES, **RECORDS}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_not_verified(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """The error has the file and the reason. The others arrive, without the mark of a complete record."""
    make, reason = DAMAGES[damage]
    record, target = volume.root / RUN_ID, tmp_path / "target"
    make(record)
    for _ in range(2):
        with transfer_fails():
            fetch(LOADER, RUN_ID, target)
        assert reason in capsys.readouterr().err
        assert not (target / "_SUCCESS").exists()
        assert (target / "checkpoints" / "last.ckpt").read_text() == "weights"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_record_that_is_damaged_after_a_fetch_is_not_verified(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """A complete file here is not replaced by a damaged one, and it stays usable if all are complete."""
    make, reason = DAMAGES[damage]
    record, target = volume.root / RUN_ID, tmp_path / "target"
    fetch(LOADER, RUN_ID, target)
    results = contents(target / "result")
    make(record)
    with transfer_fails():
        fetch(LOADER, RUN_ID, target)
    assert reason in capsys.readouterr().err
    assert {name: content for name, content in contents(target / "result").items() if name != ".run.json"} == {
        name: content for name, content in results.items() if name != ".run.json"
    }
    assert (target / "_SUCCESS").exists() == (damage in FILES)


def test_a_local_file_that_changed_is_fetched_again(tmp_path: Path, volume: FakeVolume) -> None:
    """The record on the volume is complete; so is the fetched one afterwards."""
    target = tmp_path / "target"
    fetch(LOADER, RUN_ID, target)
    (target / "result" / "model.pt").write_text("v" * 5000)
    assert fetch(LOADER, RUN_ID, target).sent == 2
    assert contents(target) == contents(volume.root / RUN_ID)


def test_an_earlier_fetch_without_the_model_loses_its_mark(tmp_path: Path, volume: FakeVolume) -> None:
    """The command that fetched it called it verified."""
    replace_by_link(volume.root / RUN_ID / "result" / "model.pt")
    target = tmp_path / "target"
    shutil.copytree(volume.root / RUN_ID, target, symlinks=True)
    with transfer_fails():
        fetch(LOADER, RUN_ID, target)
    assert not (target / "_SUCCESS").exists()


def test_each_record_of_a_folder_is_compared(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder may have records of several runs, and other folders with a file of that name."""
    shutil.copytree(volume.root / RUN_ID, volume.root / "runs" / "1", symlinks=True)
    shutil.copytree(volume.root / RUN_ID, volume.root / "runs" / "2", symlinks=True)
    write(volume.root / "runs", {"_SUCCESS": "", "spark/_SUCCESS": "", "spark/part-1": "x"})
    fetch(LOADER, "runs", tmp_path / "whole")
    (volume.root / "runs" / "2" / "result" / "model.pt").unlink()
    with transfer_fails():
        fetch(LOADER, "runs", tmp_path / "target")
    assert "runs on the volume differs from its run.json: '2/result/model.pt' is missing." in capsys.readouterr().err
    marked = {path.parent.name for path in (tmp_path / "target").rglob("_SUCCESS")}
    assert marked == {"target", "1", "spark"}


def test_a_record_in_a_result_is_a_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may copy a part of another run's record into its result; that record is not fetched as one."""
    volume = make_volume(tmp_path, monkeypatch)
    code = 'write(f"{output}/base/_SUCCESS", \'{"run_json_sha256": "0"}\'); write(f"{output}/base/run.json", "{}")'
    assert run(volume.root, command(code))[0] == 0
    fetch(LOADER, RUN_ID, tmp_path / "target")
    assert contents(tmp_path / "target") == contents(volume.root / RUN_ID)


@pytest.mark.parametrize("path", ["_SUCCESS", "run.json", "result/metrics.jsonl", "result"])
def test_a_part_of_a_damaged_record_is_fetched_as_it_is(tmp_path: Path, volume: FakeVolume, path: str) -> None:
    """The message of a damaged record says so."""
    (volume.root / RUN_ID / "result" / "model.pt").unlink()
    assert fetch(LOADER, f"{RUN_ID}/{path}", tmp_path / "target").sent >= 1


@pytest.mark.parametrize(
    "entry",
    ['{"size": "5000", "sha256": "x"}', '{"size": 5e3}', "7", "null", '{"size": %s, "sha256": "x"}' % ("9" * 400)],
)
def test_an_invalid_entry_of_run_json_is_a_difference(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str], entry: str
) -> None:
    """A consistent record may hold anything: whoever trains writes it."""
    record = volume.root / RUN_ID
    facts = json.loads((record / "run.json").read_text())
    facts["files"]["result/model.pt"] = json.loads(entry)
    text = json.dumps(facts)
    write(record, {"run.json": text, "result/.run.json": text})
    digest = hashlib.sha256(text.encode()).hexdigest()
    write(record, {"_SUCCESS": json.dumps({"run_json_sha256": digest})})
    with transfer_fails():
        fetch(LOADER, RUN_ID, tmp_path / "target")
    stderr = capsys.readouterr().err
    assert "'result/model.pt' has no valid size" in stderr or "'result/model.pt' has 5000 bytes instead of 99" in stderr
