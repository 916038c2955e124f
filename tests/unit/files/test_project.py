"""Files of a project are changed all or none, after a check of the result."""

from pathlib import Path

import pytest

from trainstack.errors import TrainstackError
from trainstack.onboarding import project_files as staging

FORMER = "config:\n  trainstack:cluster: {context: old}\n"


def make_project(folder: Path) -> Path:
    """Create a project of one environment."""
    (folder / "Pulumi.lab.yaml").write_text(FORMER)
    return folder


def test_faults_of_the_result_are_reported_and_nothing_is_written(tmp_path: Path) -> None:
    """The errors have file and line in the new file; the other files are those of the project."""
    root = make_project(tmp_path)
    files = {"Pulumi.team.yaml": "config:\n  trainstack:cluster: {contxt: new}\n"}
    assert staging.faults(root, files, "lab") == []
    assert staging.faults(root, files, "team") == [
        "Pulumi.team.yaml:2: cluster: unknown key contxt; did you mean context?"
    ]
    assert sorted(path.name for path in root.iterdir()) == ["Pulumi.lab.yaml"]


def test_both_files_are_written_with_their_modes(tmp_path: Path) -> None:
    """An existing file keeps its mode, a new one is readable for all; no other file remains."""
    root = make_project(tmp_path)
    (root / "Pulumi.lab.yaml").chmod(0o600)
    files = {"Pulumi.lab.yaml": "config: {}\n", "Pulumi.team.yaml": "config:\n"}
    assert staging.diff(root, files) == (
        "--- a/Pulumi.lab.yaml\n+++ b/Pulumi.lab.yaml\n@@ -1,2 +1 @@\n-config:\n"
        "-  trainstack:cluster: {context: old}\n+config: {}\n"
        "--- /dev/null\n+++ b/Pulumi.team.yaml\n@@ -0,0 +1 @@\n+config:\n"
    )
    staging.write(root, files)
    assert {path.name: (path.read_text(), path.stat().st_mode & 0o777) for path in root.iterdir()} == {
        "Pulumi.lab.yaml": ("config: {}\n", 0o600),
        "Pulumi.team.yaml": ("config:\n", 0o644),
    }
    assert staging.diff(root, files) == ""


def test_if_the_second_fails_the_first_is_as_it_was(tmp_path: Path) -> None:
    """A folder of that name makes the rename fail."""
    root = make_project(tmp_path)
    (root / "Pulumi.team.yaml").mkdir()
    with pytest.raises(TrainstackError, match="nothing was changed"):
        staging.write(root, {"Pulumi.lab.yaml": "config: {}\n", "Pulumi.team.yaml": "config:\n"})
    assert (root / "Pulumi.lab.yaml").read_text() == FORMER
    assert sorted(path.name for path in root.iterdir()) == ["Pulumi.lab.yaml", "Pulumi.team.yaml"]
