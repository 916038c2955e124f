"""Which program opens the pages."""

from pathlib import Path

import pytest

from tests.integration.reports.chromium import find

SNAPS = """#!/bin/sh
if ! [ -x /snap/bin/chromium ]; then
    echo "Command '$0' requires the chromium snap to be installed." >&2
    exit 1
fi
"""


def make_program(folder: Path, name: str, text: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return str(folder / name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the only folder on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_debians(folder: Path) -> None:
    """It is a script that starts the program of its package."""
    program = make_program(folder, "chromium", "#!/bin/sh\nexec /usr/lib/chromium/chromium\n")
    assert find() == program


def test_ubuntus_package_is_no_browser(folder: Path) -> None:
    """It refers to a snap; another browser is used if installed."""
    make_program(folder, "chromium-browser", SNAPS)
    assert find() is None
    program = make_program(folder, "google-chrome", "\x7fELF")
    assert find() == program


def test_a_snap_is_not_used(folder: Path) -> None:
    """A snap has a private /tmp."""
    snap = make_program(folder.parent / "other", "snap", "\x7fELF")
    folder.mkdir()
    (folder / "chromium").symlink_to(snap)
    assert find() is None
