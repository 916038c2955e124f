"""The steps in the pages of docs/start: shell commands and edits of files, in order."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from trainstack.settings.loading.merge import merge, to_plain
from trainstack.settings.loading.yaml_reader import read_map

PAGES = Path(__file__).resolve().parents[1] / "docs" / "start"
_FENCE = re.compile(r"^```(sh|yaml edit (?P<file>\S+))\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


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
        (root / ".edit.yaml").write_text(self.text)
        edited = to_plain(merge(read_map(root, self.file, []), read_map(root, ".edit.yaml", [])))
        (root / ".edit.yaml").unlink()
        (root / self.file).write_text(yaml.safe_dump(json.loads(json.dumps(edited)), sort_keys=False))


def steps(page: str) -> Iterator[Line | Edit]:
    """Yield the steps of a page, in order."""
    for found in _FENCE.finditer((PAGES / f"{page}.md").read_text(encoding="utf-8")):
        if found["file"]:
            yield Edit(found["file"], found["text"])
        else:
            yield from map(Line, found["text"].splitlines())
