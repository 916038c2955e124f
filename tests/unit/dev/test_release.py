"""The version, the notes and the tag of a release."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from trainstack.dev.release import build, project_version, version_notes
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.places import CHECKOUT

CHANGES = "# Changelog\n\n## [1.1.0] - Unreleased\n\n- New.\n\n## [1.0.0] - 2026-11-02\n\n### Added\n\n- First.\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create version 1.1.0 of a project with a changelog."""
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "trainstack"\nversion = "1.1.0"\n')
    return tmp_path


def test_the_notes_are_the_versions_section(checkout: Path) -> None:
    """The notes have no heading and end at the next section."""
    assert version_notes(checkout, "1.0.0", is_release=True) == "### Added\n\n- First.\n"
    assert version_notes(checkout, "1.1.0", is_release=False) == "- New.\n"


def test_a_release_has_a_date_and_its_own_tag(checkout: Path) -> None:
    """Each error has a remedy."""
    with pytest.raises(ToolchainError, match="'Unreleased' as the date of version"):
        build(checkout, "v1.1.0", checkout / "dist")
    with pytest.raises(
        ToolchainError, match=r"the tag v1\.0\.0 is not that of version 1\.1\.0 .*: tag the commit v1\.1\.0"
    ):
        build(checkout, "v1.0.0", checkout / "dist")
    with pytest.raises(ToolchainError, match=r"has no section `## \[2.0.0\] - <date>`: add it"):
        version_notes(checkout, "2.0.0", is_release=False)
    assert not (checkout / "dist").exists()


def test_the_version_has_one_place() -> None:
    """It is in pyproject.toml: the installed metadata are made from it, and the changelog describes it."""
    assert version("trainstack") == project_version(CHECKOUT)
    assert version_notes(CHECKOUT, version("trainstack"), is_release=False)
    named = [
        file.relative_to(CHECKOUT).as_posix()
        for file in (CHECKOUT / "trainstack").rglob("*.py")
        if re.search(rf"[\"'=]{re.escape(version('trainstack'))}[\"']", file.read_text(encoding="utf-8"))
    ]
    assert named == []
