"""The steps in the pages of docs/start: shell commands and edits of files, in order."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.doc_blocks import ROOT, all_blocks
from trainstack.settings.errors import SettingsFinding
from trainstack.settings.loading.merge import merge, to_plain
from trainstack.settings.loading.yaml_reader import read_map

PAGES = ROOT / "docs" / "start"
EDIT = "yaml edit "
"""The text before the file's name after the opening fence of an edit."""


@dataclass(frozen=True)
class Line:
    """A shell command."""

    text: str


@dataclass(frozen=True)
class Edit:
    """Values that the reader writes into a file."""

    file: str
    text: str

    def apply(self, root: Path) -> None:
        """Merge the values into the file, which must exist, by the rule for settings."""
        faults: list[SettingsFinding] = []
        (root / ".edit.yaml").write_text(self.text)
        edited = to_plain(merge(read_map(root, self.file, faults), read_map(root, ".edit.yaml", faults)))
        assert faults == []
        (root / ".edit.yaml").unlink()
        (root / self.file).write_text(yaml.safe_dump(json.loads(json.dumps(edited)), sort_keys=False))


def steps(page: str) -> Iterator[Line | Edit]:
    """Yield the steps of a page, in order."""
    for block in all_blocks():
        if block.page != f"docs/start/{page}.md":
            continue
        if block.info.startswith(EDIT):
            yield Edit(block.info.removeprefix(EDIT), block.text)
        elif block.info == "sh":
            yield from map(Line, block.text.splitlines())
