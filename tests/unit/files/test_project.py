"""Files of a project are changed all or none, by one command at a time, after a check of the result."""

import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trainstack.errors import TrainstackError
from trainstack.files import project, replacement
from trainstack.files.project import edit_project, project_file
from trainstack.files.regular import FileError
from trainstack.onboarding import project_files as staging

FORMER = "config:\n  trainstack:cluster: {context: old}\n"


def make_project(folder: Path) -> Path:
    """Create a project of one environment."""
    folder.mkdir(exist_ok=True)
    (folder / "Pulumi.lab.yaml").write_text(FORMER)
    return folder


def write(root: Path, files: dict[str, str]) -> None:
    """Write files of a project."""
    with edit_project(root) as edit:
        edit.write(files)


def test_faults_of_the_result_are_reported_and_nothing_is_written(tmp_path: Path) -> None:
    """The errors have file and line in the new file; the other files are those of the project."""
    root = make_project(tmp_path)
    files = {"Pulumi.team.yaml": "config:\n  trainstack:cluster: {contxt: new}\n"}
    assert staging.find_faults(root, files, "lab") == []
    assert staging.find_faults(root, files, "team") == [
        "Pulumi.team.yaml:2: cluster: unknown key contxt; did you mean context?"
    ]
    assert sorted(path.name for path in root.iterdir()) == ["Pulumi.lab.yaml"]


def test_both_files_are_written_with_their_modes(tmp_path: Path) -> None:
    """An existing file keeps its mode, a new one is readable for all; no other file remains."""
    root = make_project(tmp_path)
    (root / "Pulumi.lab.yaml").chmod(0o600)
    files = {"Pulumi.lab.yaml": "config: {}\n", "Pulumi.team.yaml": "config:\n"}
    assert staging.unified_diff_of(root, files) == (
        "--- a/Pulumi.lab.yaml\n+++ b/Pulumi.lab.yaml\n@@ -1,2 +1 @@\n-config:\n"
        "-  trainstack:cluster: {context: old}\n+config: {}\n"
        "--- /dev/null\n+++ b/Pulumi.team.yaml\n@@ -0,0 +1 @@\n+config:\n"
    )
    write(root, files)
    assert {path.name: (path.read_text(), path.stat().st_mode & 0o777) for path in root.iterdir()} == {
        "Pulumi.lab.yaml": ("config: {}\n", 0o600),
        "Pulumi.team.yaml": ("config:\n", 0o644),
    }
    assert staging.unified_diff_of(root, files) == ""


def test_a_new_file_has_the_mode_of_the_users_umask(tmp_path: Path) -> None:
    """A user's files may be private."""
    before = os.umask(0o077)
    try:
        write(tmp_path, {"Pulumi.team.yaml": "config:\n"})
    finally:
        os.umask(before)
    assert (tmp_path / "Pulumi.team.yaml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("second", ["Pulumi.team.yaml", "Pulumi.team.yaml/inside"])
def test_if_the_second_fails_the_first_is_as_it_was(tmp_path: Path, second: str) -> None:
    """A folder is in the place of a file, or a file in the place of a folder."""
    root = make_project(tmp_path)
    (root / "Pulumi.team.yaml").mkdir() if second.endswith("yaml") else (root / "Pulumi.team.yaml").touch()
    with pytest.raises(TrainstackError, match=r"nothing was changed: .*Pulumi\.team\.yaml"):
        write(root, {"Pulumi.lab.yaml": "config: {}\n", second: "config:\n"})
    assert (root / "Pulumi.lab.yaml").read_text() == FORMER
    assert sorted(path.name for path in root.iterdir()) == ["Pulumi.lab.yaml", "Pulumi.team.yaml"]


def test_if_the_second_is_not_renamed_the_first_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its former content and mode; a new file is removed."""
    root = make_project(tmp_path)
    (root / "Pulumi.lab.yaml").chmod(0o640)
    apply = replacement.Replacement.apply

    def fail_for_the_last(self: replacement.Replacement) -> None:
        if self.path.name == "last.yaml":
            raise OSError(28, "No space left on device", str(self.path))
        apply(self)

    monkeypatch.setattr(replacement.Replacement, "apply", fail_for_the_last)
    with pytest.raises(TrainstackError, match=r"nothing was changed: .*last\.yaml: No space left on device"):
        write(root, {"Pulumi.lab.yaml": "config: {}\n", "new.yaml": "", "last.yaml": ""})
    (file,) = root.iterdir()
    assert (file.name, file.read_text(), file.stat().st_mode & 0o777) == ("Pulumi.lab.yaml", FORMER, 0o640)


def test_what_cannot_be_restored_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other files are restored all the same."""
    root = make_project(tmp_path)
    (root / "b.yaml").write_text("old")
    apply, undo = replacement.Replacement.apply, replacement.Replacement.undo

    def fail(self: replacement.Replacement, name: str, method: Callable[[replacement.Replacement], None]) -> None:
        if self.path.name == name:
            raise OSError(5, "Input/output error", str(self.path))
        method(self)

    monkeypatch.setattr(replacement.Replacement, "apply", lambda self: fail(self, "last.yaml", apply))
    monkeypatch.setattr(replacement.Replacement, "undo", lambda self: fail(self, "b.yaml", undo))
    with pytest.raises(TrainstackError, match=r"change of last\.yaml failed .* new content: \S+/b\.yaml; restore them"):
        write(root, {"Pulumi.lab.yaml": "config: {}\n", "b.yaml": "new", "last.yaml": ""})
    assert ((root / "Pulumi.lab.yaml").read_text(), (root / "b.yaml").read_text()) == (FORMER, "new")


def test_a_full_disk_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    """A limit of 0 bytes for each file is as a full disk: the error of the write does not name the file."""
    root = make_project(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(TrainstackError) as caught:
            write(root, {"Pulumi.lab.yaml": "config: {}\n"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value) == (
        "nothing was changed: Pulumi.lab.yaml: File too large; raise the limit on the size of files (`ulimit -f`), "
        "then run the command again"
    )
    assert [(file.name, file.read_text()) for file in root.iterdir()] == [("Pulumi.lab.yaml", FORMER)]


def test_the_second_of_two_edits_sees_the_first(tmp_path: Path) -> None:
    """It waits until the first has ended."""
    root, order = make_project(tmp_path), list[str]()
    entered = threading.Event()

    def append(line: str) -> None:
        with edit_project(root) as edit:
            entered.set()
            text = edit.read("Pulumi.lab.yaml") or ""
            time.sleep(0.1)
            edit.write({"Pulumi.lab.yaml": f"{text}# {line}\n"})
            order.append(line)

    threads = [threading.Thread(target=append, args=(line,)) for line in ("first", "second")]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert order == ["first", "second"]
    assert (root / "Pulumi.lab.yaml").read_text() == f"{FORMER}# first\n# second\n"


def test_an_edit_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped command must not let all others wait."""
    monkeypatch.setattr(project, "LOCK_SECONDS", 0)
    with edit_project(tmp_path), pytest.raises(TrainstackError, match=rf"process {os.getpid()} \(.*\) has been using"):
        write(tmp_path, {"Pulumi.lab.yaml": ""})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", ["edit", "removal", "creation"])
def test_a_change_by_another_program_is_not_lost(tmp_path: Path, change: str) -> None:
    """Editors do not lock the project."""
    root = make_project(tmp_path)
    name = "Pulumi.team.yaml" if change == "creation" else "Pulumi.lab.yaml"
    with edit_project(root) as edit:
        edit.read(name)
        (root / name).unlink() if change == "removal" else (root / name).write_text("config: {}  # mine\n")
        with pytest.raises(TrainstackError, match=f"nothing was changed: {name}: was changed by another program"):
            edit.write({"other.yaml": "", name: "config: {}\n"})
    assert not (root / "other.yaml").exists()
    assert (root / name).exists() == (change != "removal")
    assert change == "removal" or "# mine" in (root / name).read_text()


def test_without_locks_the_comparison_alone_protects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS does not lock folders."""

    def refuse(_: int) -> bool:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(project, "try_lock", refuse)
    root = make_project(tmp_path)
    with edit_project(root) as first, edit_project(root) as second:
        assert first.read("Pulumi.lab.yaml") == second.read("Pulumi.lab.yaml") == FORMER
        first.write({"Pulumi.lab.yaml": "config: {}\n"})
        with pytest.raises(TrainstackError, match="run the command again"):
            second.write({"Pulumi.lab.yaml": "config:\n"})
    assert (root / "Pulumi.lab.yaml").read_text() == "config: {}\n"


def test_a_link_in_the_project_stays_and_its_target_is_written(tmp_path: Path) -> None:
    """Several environments may share a file, and a folder of sweeps may be a link."""
    root = make_project(tmp_path / "project")
    (root / "shared").mkdir()
    (root / "shared" / "team.yaml").write_text("config: {}\n")
    (root / "Pulumi.team.yaml").symlink_to("shared/team.yaml")
    (root / "sweeps").symlink_to(root / "shared")
    write(root, {"Pulumi.team.yaml": "config:\n", "sweeps/a/new.yaml": "new"})
    assert (root / "Pulumi.team.yaml").readlink() == Path("shared/team.yaml")
    assert (root / "shared" / "team.yaml").read_text() == "config:\n"
    assert (root / "shared" / "a" / "new.yaml").read_text() == "new"


def test_what_a_killed_edit_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """Other hidden files stay, and a link of such a name is not followed."""
    root = make_project(tmp_path / "project")
    (tmp_path / "mine").write_text("mine")
    (root / ".trainstack-a1b2c3d4.tmp").write_text("half")
    (root / ".trainstack-link.tmp").symlink_to(tmp_path / "mine")
    (root / ".other.tmp").touch()
    write(root, {"Pulumi.lab.yaml": "config:\n"})
    assert sorted(path.name for path in root.iterdir()) == [".other.tmp", ".trainstack-link.tmp", "Pulumi.lab.yaml"]
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("a.yaml", "../outside"),
        ("a.yaml", "missing/../../outside"),
        ("a.yaml", "/proc/self/root/etc/hosts"),
        ("a.yaml", ".git/config"),
        ("a.yaml", "sub/.venv/x.py"),
        ("folder/a.yaml", None),
    ],
)
def test_a_place_outside_of_the_project_is_refused(tmp_path: Path, name: str, target: str | None) -> None:
    """So is one in a hidden folder of it, by a link."""
    root = make_project(tmp_path / "project")
    if target is None:
        (root / "folder").symlink_to(tmp_path)
    else:
        (root / name).symlink_to(target)
    with pytest.raises(FileError, match=r"leads out of the project, to /|is a link to .*, in a hidden folder"):
        project_file(root, name)


@pytest.mark.parametrize("name", ["../a.yaml", "/etc/hosts", "a/../../b"])
def test_a_path_out_of_the_project_is_refused(tmp_path: Path, name: str) -> None:
    """A name may come from a file of the project."""
    with pytest.raises(FileError, match="leads out of the project"):
        project_file(make_project(tmp_path / "project"), name)


def test_hidden_folders_of_the_project_and_above_it_are_no_fault(tmp_path: Path) -> None:
    """`.github` has the workflow. The project itself may be reached through a link."""
    root = make_project(tmp_path / ".hidden")
    (tmp_path / "link").symlink_to(root)
    write(tmp_path / "link", {".github/workflows/a.yaml": "a"})
    assert (root / ".github" / "workflows" / "a.yaml").read_text() == "a"


def test_an_overlay_has_new_files_in_folders_of_the_project(tmp_path: Path) -> None:
    """Folders that a new file is in are real; everything else is a link, so the project itself is unchanged."""
    root, folder = make_project(tmp_path / "project"), tmp_path / "overlay"
    write(root, {"workloads/old/a.yaml": "old", "workloads/both/a.yaml": "old", "workloads/both/b.yaml": "old"})
    folder.mkdir()
    files = {"workloads/both/a.yaml": "new", "workloads/new/deep/a.yaml": "new", "Pulumi.lab.yaml": "new"}
    with project.overlay_project(root, files, folder):
        texts = {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.yaml")}
        assert texts == {**files, "workloads/both/b.yaml": "old"}
        assert project_file(folder, "workloads/old/a.yaml").read_text() == "old"
        assert (folder / "workloads" / "old").is_symlink()
    assert not (root / "workloads" / "new").exists()
    assert (root / "workloads" / "both" / "a.yaml").read_text() == "old"
