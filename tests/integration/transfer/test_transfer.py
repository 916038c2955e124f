"""Files to a volume and back, with the shell programs of real images and with broken connections."""

import os
import resource
import signal
from pathlib import Path

import pytest

from tests.unit.transfer.volume import LOADER, FakeVolume, make_volume, transfer_fails, write
from trainstack.transfer.errors import TransferError
from trainstack.transfer.fetch import fetch
from trainstack.transfer.local_files import PARTIAL, LocalTarget
from trainstack.transfer.pod_script import run_script
from trainstack.transfer.upload import upload
from trainstack.transfer.volume_files import list_files

RUN = {"_SUCCESS": "{}", "logs/rank-0.log": "epoch 1/1\n", "result/model.pt": "weights", "run.json": "{}"}

HEADINGS = (
    "list of folders",
    "files",
    " files",
    " folders",
    " others",
    " parts",
    " end",
    "end",
    "0",
    "1",
    "taken",
    "whole",
)
BROKEN_LINES = ("\n", "a\nb", "a\nb\n", " files\n", "\n folders\n", "12 3,4,5 ./x\n end", "\\n", "\\\n\\\\", "- \r\n")


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeVolume:
    """Provide a volume behind a loader of our helper image."""
    return make_volume(tmp_path, monkeypatch)


def contents(folder: Path) -> dict[bytes, bytes | None]:
    """Return everything below a folder: the content of files, None for folders."""
    paths = sorted(folder.rglob("*"))
    return {os.fsencode(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in paths}


@pytest.mark.parametrize("image", ["busybox", "gnu"])
def test_every_name_survives_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    """Names include invalid text, 250 characters and words of our protocol; files and folders may be empty."""
    volume = make_volume(tmp_path, monkeypatch, image)
    names = [
        *HEADINGS,
        *BROKEN_LINES,
        " two  spaces ",
        "-rf",
        "'quotes\"",
        "a\rb\tc\u2028d",
        "$(x)`y`;*?",
        "back\\slash\\n",
        "x.partial",
        "n" * 250,
    ]
    deep = {
        "-d/-e/f": "deep",
        "empty": "",
        "log files/a": "x",
        "with\nbreak folders\n/end": "y",
        "sub/lost+found/b": "z",
    }
    source = write(tmp_path / "source", {**{name: name for name in names}, **deep})
    (source / os.fsdecode(b"latin-\xe9")).write_text("no UTF-8")
    (source / "nothing" / "in it").mkdir(parents=True)
    (source / "link").symlink_to("-rf")
    os.link(source / "-rf", source / "second name")
    os.utime(source / "-rf", (1_000_000_000, 1_000_000_000))

    assert upload(LOADER, source, "data").sent == len(names) + len(deep) + 3
    assert contents(volume.root / "data") == contents(source)
    assert (volume.root / "data" / "-rf").stat().st_mtime == 1_000_000_000
    assert upload(LOADER, source, "data").sent == 0

    target = tmp_path / "target"
    assert fetch(LOADER, "data", target).sent == len(names) + len(deep) + 3
    assert {os.fsencode(name) for name in list_files(LOADER, "data")} == {
        name for name, content in contents(source).items() if content is not None
    }
    assert contents(target) == contents(source)
    assert fetch(LOADER, "data", target).sent == 0


@pytest.mark.parametrize(
    ("count", "most_kib"),
    [pytest.param(100, 256, id="100"), pytest.param(800, 2048, id="800", marks=pytest.mark.slow)],
)
def test_many_names_are_no_matter(tmp_path: Path, volume: FakeVolume, count: int, most_kib: int) -> None:
    """They exceed a command line and a URL; the pod's environment may be large too."""
    # Linux limits a command line to a quarter of the stack: to 2 MiB, unless the stack is limited.
    volume.kubectl_does(f'ulimit -s {4 * most_kib}; export LARGE={"x" * 9000}; pod "$@"')
    names = [f"{'/'.join(['long' * 60] * 12)}/{number}" for number in range(count)]
    assert sum(map(len, names)) > most_kib * 1024
    folder = write(volume.root / "data", dict.fromkeys(names, ""))
    assert fetch(LOADER, "data", tmp_path / "target").sent == count
    assert contents(tmp_path / "target") == contents(folder)


def test_a_folder_that_cannot_be_read_is_reported(
    tmp_path: Path, volume: FakeVolume, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command fails instead of skipping it."""
    source = write(tmp_path / "source", {"good": "x", "closed/secret": "y"})
    real = os.scandir

    # No mode closes a folder for root, who may run the tests.
    def scan(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)
    with transfer_fails():
        upload(LOADER, source, "data")
    assert "closed" in capsys.readouterr().err
    monkeypatch.undo()
    assert list(volume.root.iterdir()) == []


@pytest.mark.parametrize("what", ["broken link", "folder by a link", "pipe"])
def test_what_cannot_be_sent_is_reported_before_anything_is_sent(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """The error has the name."""
    source = write(tmp_path / "source", {"good": "x"})
    odd = source / "odd"
    match what:
        case "broken link":
            odd.symlink_to("nowhere")
        case "folder by a link":
            odd.symlink_to(tmp_path)
        case _:
            os.mkfifo(odd)
    with transfer_fails():
        upload(LOADER, source, "data")
    assert "'odd" in capsys.readouterr().err
    assert contents(volume.root) == {}


@pytest.mark.parametrize("what", ["file", "folder", "folder below", "name on the volume", "folder on the volume"])
def test_the_name_of_unfinished_files_is_refused_before_anything_is_sent(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """Such a file would count as part of an unfinished upload, and never be listed."""
    names = {"file": PARTIAL, "folder": f"{PARTIAL}/a", "folder below": f"deep/{PARTIAL}/a"}
    places = {"name on the volume": f"data/{PARTIAL}", "folder on the volume": f"{PARTIAL}/data"}
    source = write(tmp_path / "source", {"good": "x", names.get(what, "also"): "y"})
    with transfer_fails():
        upload(LOADER, source / "good" if what in places else source, places.get(what, "data"))
    stderr = capsys.readouterr().err
    assert f"{PARTIAL} is reserved" in stderr
    assert "nothing was sent" in stderr
    assert contents(volume.root) == {}


def test_what_earlier_uploads_left_under_that_name_is_listed_and_fetched(tmp_path: Path, volume: FakeVolume) -> None:
    """Parts of unfinished uploads in the same folder are skipped."""
    part = f"{'0' * 32}-{'f' * 32}"
    names = {
        f"{PARTIAL}/mine",
        f"{PARTIAL}/deep/small",
        f"sub/{PARTIAL}",
        f"{PARTIAL}-/x",
        "a",
        f"sub/x/{PARTIAL}/{part}x",
    }
    folder = write(volume.root / "data", dict.fromkeys(names, "content"))
    parts = (part, f"{part}.0a1b2c3d-12")
    write(folder / PARTIAL, dict.fromkeys(parts, "unfinished"))
    write(folder / "alone" / PARTIAL, {part: "unfinished"})
    assert list_files(LOADER, "data").keys() == names
    target = write(tmp_path / "target", {f"{PARTIAL}/of mine": "stays", f"{PARTIAL}/{part}": "unfinished"})
    assert fetch(LOADER, "data", target).sent == len(names)
    paths = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert paths == {*names, f"{PARTIAL}/of mine", f"{PARTIAL}/{part}"}
    assert not (target / "alone" / PARTIAL).exists()


@pytest.mark.parametrize("image", ["busybox", "gnu"])
@pytest.mark.parametrize("program", ["find", "stat"])
def test_a_list_that_lacks_files_is_not_taken_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str, image: str
) -> None:
    """The files are also counted by other means, and `verified` is not printed."""
    volume = make_volume(tmp_path, monkeypatch, image)
    write(volume.root / "data", {"a": "x", "b": "yy", "c": "z"})
    lose = {
        "find": 'case "$*" in *"frame files"*) mv {0}/b {1}/b;; esac; pod "$@"; [ ! -e {1}/b ] || mv {1}/b {0}/b',
        "stat": 'case "$*" in *"wc -c"*) echo 3 > {0}/d; pod "$@"; rm -f {0}/d; exit;; esac; pod "$@"',
    }[program]
    volume.kubectl_does(lose.format(volume.root / "data", tmp_path))
    with transfer_fails():
        fetch(LOADER, "data", tmp_path / "target")
    stderr = capsys.readouterr().err
    assert "is not verified: its files are counted as" in stderr
    assert ("but listed as 2 of 2 bytes" if program == "find" else "counted as 4 of 6 bytes") in stderr


def test_hard_links_arrive_as_files(tmp_path: Path, volume: FakeVolume) -> None:
    """An archive has the content of the first link only."""
    folder = write(volume.root / "data", {"a/first": "content"})
    os.link(folder / "a" / "first", folder / "second")
    assert fetch(LOADER, "data", tmp_path / "target").sent == 2
    assert contents(tmp_path / "target") == contents(folder)


def test_links_on_the_volume_are_reported(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not skipped silently."""
    (write(volume.root / "data", {"a": "x"}) / "latest").symlink_to("a")
    assert fetch(LOADER, "data", tmp_path / "target").sent == 1
    assert "'latest'" in capsys.readouterr().err


def test_the_file_that_marks_success_is_last(tmp_path: Path, volume: FakeVolume) -> None:
    """An interrupted fetch, also a repeated one, never leaves _SUCCESS with incomplete files."""
    write(volume.root / "run", RUN)
    target = tmp_path / "target"
    volume.set_fetch('grep -v model | pod "$@"; exit 1')
    with transfer_fails():
        fetch(LOADER, "run", target)
    assert (target / "run.json").exists()
    assert not (target / "_SUCCESS").exists()

    write(target, {"_SUCCESS": "{}"})
    with transfer_fails():
        fetch(LOADER, "run", target)
    assert not (target / "_SUCCESS").exists()

    volume.set_fetch('pod "$@"')
    fetch(LOADER, "run", target)
    assert contents(target) == contents(volume.root / "run")


@pytest.mark.parametrize(
    "script",
    ['pod "$@" | head -n 2', 'pod "$@" | head -n 3; exit 1', "exit 1", "true"],
    ids=["cut off, 0", "cut off, 1", "failed at once", "silent, 0"],
)
def test_an_incomplete_list_is_not_used(volume: FakeVolume, capsys: pytest.CaptureFixture[str], script: str) -> None:
    """The exit code of kubectl does not matter."""
    write(volume.root / "run", RUN)
    volume.kubectl_does(script)
    with transfer_fails():
        list_files(LOADER, "run")
    stderr = capsys.readouterr().err
    assert "list of the volume's files in run" in stderr
    assert "run the same command again" in stderr


def test_a_file_that_is_deleted_while_it_is_listed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An active run renames its checkpoints."""
    volume = make_volume(tmp_path, monkeypatch, "gnu")
    volume.program_does("stat", f'rm -f {volume.root}/run/result/model.pt\nreal "$@"')
    write(volume.root / "run", RUN)
    assert sorted(list_files(LOADER, "run")) == ["_SUCCESS", "logs/rank-0.log", "run.json"]


def test_a_folder_of_the_volume_that_cannot_be_listed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files do not count as deleted."""
    volume = make_volume(tmp_path, monkeypatch, "gnu")
    volume.program_does("find", 'real "$@"\necho "find: ./logs: Permission denied" >&2\nexit 1')
    write(volume.root / "run", RUN)
    with transfer_fails():
        list_files(LOADER, "run")
    assert "cannot list all of run on the volume: find: ./logs: Permission denied" in capsys.readouterr().err


def test_a_folder_that_is_not_there_has_no_files(volume: FakeVolume) -> None:
    """This is not an error."""
    assert list_files(LOADER, "nowhere") == {}


def test_a_broken_stream_ends_a_process_that_does_not_end(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is killed: it might wait without end for a reader of its message."""
    write(volume.root / "run", {"model.pt": "x" * 100_000})
    volume.set_stderr_timeout(0.05)
    volume.set_fetch(f'echo $$ > {tmp_path}/pid; pod "$@" | head -c 50000; exec >&-; exec sleep 1000')
    with transfer_fails():
        fetch(LOADER, "run", tmp_path / "target")
    assert "the fetch was interrupted" in capsys.readouterr().err
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_interrupted_command_leaves_no_process(volume: FakeVolume) -> None:
    """Ctrl-C is one example."""
    volume.kubectl_does("exec sleep 1000")
    with pytest.raises(KeyboardInterrupt), run_script(LOADER, "fetch", "true", "run", stdin=b"") as script:
        raise KeyboardInterrupt
    assert script.process.returncode == -signal.SIGKILL


def test_an_interrupted_upload_has_its_reason(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is that of kubectl."""
    source = write(tmp_path / "source", {"big": "x" * 1_000_000})
    volume.kubectl_does('case "$*" in *"-xf"*) echo lost connection >&2; exit 1;; esac; pod "$@"')
    with transfer_fails():
        upload(LOADER, source, "data")
    assert "the upload was interrupted: lost connection" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "tries"),
    [
        ("tar: a/command terminated with exit code 137: Permission denied\\ncommand terminated with exit code 1", 1),
        ("tar: (Forbidden) command terminated with exit code 1: x\\nlost connection", 3),
        ("tar: x\\ncommand terminated with exit code 137", 3),
        ('Error from server (Forbidden): pods \\"x\\" is forbidden', 1),
    ],
    ids=["fault", "connection", "killed", "no right"],
)
def test_names_of_files_in_messages_do_not_decide_what_the_end_means(
    tmp_path: Path, volume: FakeVolume, words: str, tries: int
) -> None:
    """Only a broken connection is retried, and only kubectl's last line identifies it."""
    source = write(tmp_path / "source", {"a": "x"})
    count = tmp_path / "tries"
    volume.kubectl_does(f"""case "$*" in *"-xf"*) echo >> {count}; printf '{words}\\n' >&2; exit 1;; esac; pod "$@\"""")
    with transfer_fails():
        upload(LOADER, source, "data")
    assert len(count.read_text().splitlines()) == tries


def test_a_log_that_grows_during_the_fetch_is_distinguished(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is normal for an active run; for a finished run it means a write to completed files."""
    log = write(volume.root / "run", RUN) / "logs" / "rank-0.log"
    (volume.root / "run" / "_SUCCESS").unlink()
    volume.set_fetch(f'echo more >> {log}; pod "$@"; echo more >> {log}')
    fetched = fetch(LOADER, "run", tmp_path / "active")
    assert (fetched.sent, fetched.changed) == (3, ("logs/rank-0.log",))
    assert (tmp_path / "active" / "result" / "model.pt").read_text() == "weights"

    write(volume.root / "run", {"_SUCCESS": "{}"})
    with transfer_fails():
        fetch(LOADER, "run", tmp_path / "finished")
    assert "finished run were written to" in capsys.readouterr().err
    assert not (tmp_path / "finished" / "_SUCCESS").exists()


def test_what_was_damaged_on_its_way_is_no_change(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same holds for an active run."""
    write(volume.root / "data", {"a": "content"})
    volume.set_fetch('pod "$@" | sed s/content/CONTENT/')
    with transfer_fails():
        fetch(LOADER, "data", tmp_path / "target")
    assert "were damaged in transit, for example 'a'" in capsys.readouterr().err


def test_a_full_disk_is_no_damage_in_transit(tmp_path: Path, volume: FakeVolume) -> None:
    """A write that the system shortens is an error of this machine."""
    write(volume.root / "data", {"a": "x" * 100_000})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
    try:
        with pytest.raises(TransferError, match="File too large"):
            fetch(LOADER, "data", tmp_path / "target")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["/a", "../a", "b/../../a"])
def test_a_path_outside_of_the_target_is_refused(tmp_path: Path, name: str) -> None:
    """The archive may name such a path, or the target of a hard link."""
    with pytest.raises(TransferError, match="is outside"):
        LocalTarget(tmp_path / "target").prepare_path(name)


def test_nothing_lands_outside_the_target(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link on this machine does not change this."""
    write(volume.root / "data", {"out/a": "x"})
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "out").symlink_to(tmp_path)
    with transfer_fails():
        fetch(LOADER, "data", tmp_path / "target")
    assert "outside" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("existing", "path", "lands"),
    [
        ("models/other", "models", "models/a.pt"),
        ("models/other", "new/", "new/a.pt"),
        ("models/other", "models/b.pt", "models/b.pt"),
        ("models/b.pt", "models/b.pt", "models/b.pt"),
        ("models/other", ".", "a.pt"),
    ],
    ids=["a folder", "a folder to be", "a name", "a file", "the volume"],
)
def test_one_file_is_put_where_cp_would_put_it(
    tmp_path: Path, volume: FakeVolume, existing: str, path: str, lands: str
) -> None:
    """A fetch writes it into the named folder."""
    source = write(tmp_path, {"a.pt": "weights"}) / "a.pt"
    write(volume.root, {existing: "before"})
    assert upload(LOADER, source, path).sent == 1
    assert (volume.root / lands).read_text() == "weights"
    assert upload(LOADER, source, path).sent == 0

    assert fetch(LOADER, lands, tmp_path / "target").sent == 1
    assert contents(tmp_path / "target") == {os.fsencode(Path(lands).name): b"weights"}


@pytest.mark.parametrize("existing", ["data/a/b", "data"], ids=["a folder for a file", "a file for the folder"])
def test_a_file_for_a_folder_is_reported_before_anything_is_sent(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str], existing: str
) -> None:
    """The reverse is refused too; neither is removed for the other."""
    source = write(tmp_path / "source", {"a": "x", "c": "y"})
    write(volume.root, {existing: "before"})
    before = contents(volume.root)
    with transfer_fails():
        upload(LOADER, source, "data")
    assert "nothing was sent" in capsys.readouterr().err
    assert contents(volume.root) == before


def close_to_reading(volume: FakeVolume, name: str) -> None:
    """Let the pod's sha256sum fail on files of this name, as without the right to read.

    A mode does not close a file for root, who may run the tests. busybox's shell would run its own sha256sum.
    """
    volume.program_does(
        "sha256sum",
        'for each in "$@"; do\n'
        f'  case $each in *{name}) echo "sha256sum: $each: Permission denied" >&2; failed=1;;\n'
        '  *) real "$each";; esac\n'
        "done\n"
        "exit $failed",
    )


@pytest.mark.parametrize("grows", [False, True], ids=["still", "written to"])
def test_a_file_that_cannot_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, grows: bool
) -> None:
    """It does not count as deleted; the others are fetched, but not the file that marks them complete."""
    volume = make_volume(tmp_path, monkeypatch, "gnu")
    run = write(volume.root / "run", RUN)
    close_to_reading(volume, "model.pt")
    if grows:
        volume.set_fetch(f'echo more >> {run}/result/model.pt; pod "$@"')
    with transfer_fails():
        fetch(LOADER, "run", tmp_path / "target")
    assert "1 files in run on the volume cannot be read, for example 'result/model.pt'" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "target").rglob("*") if path.is_file()) == [
        "rank-0.log",
        "run.json",
    ]

    with transfer_fails():
        list_files(LOADER, "run")
    assert "cannot be read, for example 'result/model.pt'" in capsys.readouterr().err


def test_a_file_that_is_deleted_during_the_fetch_is_no_error(tmp_path: Path, volume: FakeVolume) -> None:
    """It is reported as changed, and is in no list."""
    run = write(volume.root / "run", RUN)
    (run / "_SUCCESS").unlink()
    volume.kubectl_does(f'case "$*" in *sha256sum*) rm -f {run}/result/model.pt;; esac; pod "$@"')
    assert fetch(LOADER, "run", tmp_path / "target").changed == ("result/model.pt",)
    write(run, RUN)
    assert sorted(list_files(LOADER, "run")) == ["_SUCCESS", "logs/rank-0.log", "run.json"]


def test_one_file_is_not_put_where_a_folder_of_its_name_is(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error precedes the transfer."""
    source = write(tmp_path, {"a.pt": "weights"}) / "a.pt"
    write(volume.root, {"models/a.pt/inner": "before"})
    before = contents(volume.root)
    with transfer_fails():
        upload(LOADER, source, "models")
    assert "'a.pt' is a file on one side and a folder on the other" in capsys.readouterr().err
    assert contents(volume.root) == before


def test_a_source_that_is_neither_file_nor_folder_is_reported(
    tmp_path: Path, volume: FakeVolume, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not sent as an empty file."""
    os.mkfifo(tmp_path / "pipe")
    with transfer_fails():
        upload(LOADER, tmp_path / "pipe", "data/")
    assert "pipe is neither a file nor a folder" in capsys.readouterr().err
    assert contents(volume.root) == {}
