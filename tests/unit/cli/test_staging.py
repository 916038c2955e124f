"""Files of a project are changed all or none, and looked at before."""

from pathlib import Path

import pytest

from trainstack.onboarding import project_files as staging

OLD = "config:\n  trainstack:cluster: {context: old}\n"


def make_project(folder: Path) -> Path:
    """A project of one environment."""
    (folder / "Pulumi.lab.yaml").write_text(OLD)
    return folder


def test_what_would_be_wrong_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    """With file and line of the file as it would be; the others are those of the project."""
    root = make_project(tmp_path)
    files = {"Pulumi.team.yaml": "config:\n  trainstack:cluster: {contxt: new}\n"}
    assert staging.faults(root, files, "lab") == []
    assert staging.faults(root, files, "team") == [
        "Pulumi.team.yaml:2: cluster: unknown key contxt; did you mean context?"
    ]
    assert sorted(each.name for each in root.iterdir()) == ["Pulumi.lab.yaml"]


def test_both_files_are_written_with_their_modes(tmp_path: Path) -> None:
    """An old one keeps its mode, a new one may be read by all; nothing else is left beside them."""
    root = make_project(tmp_path)
    (root / "Pulumi.lab.yaml").chmod(0o600)
    files = {"Pulumi.lab.yaml": "config: {}\n", "Pulumi.team.yaml": "config:\n"}
    assert staging.diff(root, files) == (
        "--- a/Pulumi.lab.yaml\n+++ b/Pulumi.lab.yaml\n@@ -1,2 +1 @@\n-config:\n"
        "-  trainstack:cluster: {context: old}\n+config: {}\n"
        "--- /dev/null\n+++ b/Pulumi.team.yaml\n@@ -0,0 +1 @@\n+config:\n"
    )
    staging.write(root, files)
    assert {each.name: (each.read_text(), each.stat().st_mode & 0o777) for each in root.iterdir()} == {
        "Pulumi.lab.yaml": ("config: {}\n", 0o600),
        "Pulumi.team.yaml": ("config:\n", 0o644),
    }
    assert staging.diff(root, files) == ""


def test_if_the_second_fails_the_first_is_as_it_was(tmp_path: Path) -> None:
    """A folder of the name stands in the way of the rename."""
    root = make_project(tmp_path)
    (root / "Pulumi.team.yaml").mkdir()
    with pytest.raises(staging.ProjectFilesError, match="nothing was changed"):
        staging.write(root, {"Pulumi.lab.yaml": "config: {}\n", "Pulumi.team.yaml": "config:\n"})
    assert (root / "Pulumi.lab.yaml").read_text() == OLD
    assert sorted(each.name for each in root.iterdir()) == ["Pulumi.lab.yaml", "Pulumi.team.yaml"]
