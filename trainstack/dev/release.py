"""Build a release: source archive and wheel of the committed files, and the notes from CHANGELOG.md."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from trainstack.files.temporary import temporary_folder
from trainstack.toolchain.errors import ToolchainError

PACKAGES, NOTES = "packages", "notes.md"
"""The names in the output folder."""


def build(checkout: Path, tag: str | None, output: Path) -> list[Path]:
    """Build the packages of the checkout's HEAD, and write the notes; return the files.

    `tag`: the git tag of the release, which must be that of the version. Raises ToolchainError.
    """
    version = project_version(checkout)
    if tag is not None and tag != f"v{version}":
        raise ToolchainError(
            f"the tag {tag} is not that of version {version} in pyproject.toml: tag the commit v{version}"
        )
    text = version_notes(checkout, version, is_release=tag is not None)
    packages = output / PACKAGES
    packages.mkdir(parents=True, exist_ok=True)
    with temporary_folder() as folder:
        archive = folder / "source.tar"
        source = folder / "source"
        source.mkdir()
        # Only committed files: a checkout also has compiled ones.
        _run(["git", "-C", str(checkout), "archive", f"--output={archive}", "HEAD"])
        _run(["tar", "--extract", f"--file={archive}", f"--directory={source}"])
        uv = str(Path(sys.executable).with_name("uv"))
        # The locked setuptools of this environment builds them: an isolated one would be fetched without a hash.
        options = ["--no-build-isolation", "--python", sys.executable, "--out-dir", str(packages.resolve())]
        _run([uv, "build", "--quiet", *options, str(source)])
    (output / NOTES).write_text(text, encoding="utf-8")
    return [*sorted(packages.glob(f"trainstack-{version}*")), output / NOTES]


def project_version(checkout: Path) -> str:
    return str(tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def version_notes(checkout: Path, version: str, *, is_release: bool) -> str:
    """Return a version's section of CHANGELOG.md. `is_release`: whether it must have a date."""
    changes = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## \[{re.escape(version)}\] - (\S+)\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ToolchainError(f"CHANGELOG.md has no section `## [{version}] - <date>`: add it")
    if is_release and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", section[1]):
        raise ToolchainError(
            f"CHANGELOG.md has {section[1]!r} as the date of version {version}: write that of the release"
        )
    return section[2].strip() + "\n"


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ToolchainError(f"`{' '.join(command)}` failed: {result.stderr.strip()}")
