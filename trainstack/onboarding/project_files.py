"""Changes of a project's files before they are written: the errors of the result, and the difference."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path

from trainstack.files.project import overlay_project, project_file
from trainstack.files.regular import read_text
from trainstack.files.temporary import temporary_folder
from trainstack.preflight.file_checks import check
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import LoadedEnvironment, load_with_places


def find_faults(root: Path, files: Mapping[str, str], stack: str) -> list[str]:
    """Return the errors that an environment would have with changed files.

    `files` are their texts, by their names in the root.
    """
    with staged_project(root, files) as folder:
        try:
            loaded = load_with_places(folder, stack)
        except SettingsError as error:
            return [str(finding) for finding in error.findings]
        findings = check(loaded.settings, folder, loaded.places)
    return [str(finding) for finding in findings if finding.is_blocking]


def load_changed_project(root: Path, files: Mapping[str, str], stack: str) -> LoadedEnvironment:
    """Load an environment as if the project had the changed files. Raises SettingsError."""
    with staged_project(root, files) as folder:
        return load_with_places(folder, stack)


def unified_diff_of(root: Path, files: Mapping[str, str]) -> str:
    """Return the change as a unified diff; empty if nothing changes. Raises OSError if a file cannot be read."""
    parts: list[str] = []
    for name, text in files.items():
        path = project_file(root, name)
        old_text = read_text(path) if path.exists() else ""
        old_name = f"a/{name}" if path.exists() else "/dev/null"
        parts += unified_diff(old_text.splitlines(keepends=True), text.splitlines(keepends=True), old_name, f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in parts)


@contextmanager
def staged_project(root: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """Yield a temporary copy of the project with the changed files, in which other files are links."""
    with temporary_folder() as folder, overlay_project(root, files, folder):
        yield folder
