"""The fenced blocks in the pages of the documentation."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    """The path of the page, relative to the repository."""
    section: int
    """The number of headings above the block."""
    info: str
    """The text after the opening fence: the language, and what the block is."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.strip().splitlines()[0]}"

    @property
    def is_yaml(self) -> bool:
        return self.info.lower().split()[:1] in (["yaml"], ["yml"])


@cache
def all_blocks() -> tuple[Block, ...]:
    """Return the blocks of all pages, in order."""
    return tuple(block for page in PAGES for block in _blocks_of(page))


def blocks(*infos: str) -> list[Block]:
    """Return the blocks with one of these texts after the opening fence."""
    return [block for block in all_blocks() if block.info in infos]


@cache
def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def _blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    section, end = 0, 0
    for fence in FENCE.finditer(text):
        # A comment in a block begins like a heading.
        section += len(_HEADING.findall(text, end, fence.start()))
        end = fence.end()
        yield Block(page.relative_to(ROOT).as_posix(), section, fence["info"].strip(), fence["text"])
