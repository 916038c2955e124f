"""The engine's diff as text: one block an object, coloured as GitHub colours, shortened where it has to be."""

import re
from collections.abc import Iterator

from trainstack.review.secret import without_secret_data
from trainstack.review.text import fit

_HEADER = re.compile(r"^[ +\-~=><!]*(?P<type>[\w.:/$-]+:[\w.:/$-]+): \((?P<op>[a-z-]+)\)")
OBJECT = "diff "
"""Begins the line above each object of a difference that we make ourselves."""
_SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 (a kind)
_NOISE = re.compile(r"^\s*\[(?:provider|urn)=")
"""The same for every object, and the name, which goes behind the type."""
_URN = re.compile(r"^\s*\[urn=.*::(?P<name>[^\]]+)\]$")
_SIGN = re.compile(r"^( *)(?!--outputs)(\+\+|--|\+-|-\+|[+\-~])(?=[\[\w\s\"])")
_COLOURS = {"~": "!", "+-": "!", "-+": "!"}
_LEAST = 3
"""Lines of a block that are worth showing beside the one that says how many are left out."""


def tidy(diff: str) -> str:
    """The output of `pulumi preview --diff` with the data of Secrets hidden and each object's name behind its type."""
    lines = []
    for block in _blocks(diff):
        match = _HEADER.match(block[0])
        secret = match is not None and match["type"] == _SECRET
        named = next((found["name"] for line in block if (found := _URN.match(line))), None)
        head = block[0] if named is None or match is None else f"{block[0]} {named}"
        lines += [head, *(without_secret_data(block) if secret else block)[1:]]
    return "\n".join(line.rstrip() for line in lines if not _NOISE.match(line))


def coloured(diff: str) -> str:
    """The diff with the sign of each line at its beginning, where GitHub looks for it."""
    return "\n".join(_SIGN.sub(_moved, line, count=1) for line in diff.split("\n"))


def shortened(diff: str, limit: int) -> str:
    """The diff in at most `limit` characters: the longest objects are cut first, and each says how much of it is."""
    if len(diff) <= limit:
        return diff
    blocks = list(_blocks(diff))
    cap = fit([_size(block) for block in blocks], limit)
    short = "\n".join(line for block in blocks for line in _cut(block, cap))
    if len(short) <= limit:
        return short
    # More objects than there is room for: the first ones, whole lines of them.
    note = "… the rest is left out"
    kept = short[: max(limit - len(note) - 1, 0)]
    return f"{kept[: kept.rfind(chr(10)) + 1]}{note}"[: max(limit, 0)]


def _blocks(diff: str) -> Iterator[list[str]]:
    block: list[str] = []
    for line in diff.split("\n"):
        if block and (_HEADER.match(line) or line.startswith((OBJECT, "Resources:", "    --outputs:"))):
            yield block
            block = []
        block.append(line)
    yield block


def _size(block: list[str]) -> int:
    return sum(len(line) + 1 for line in block)


def _cut(block: list[str], cap: int) -> list[str]:
    if _size(block) <= cap:
        return block
    indent = " " * (len(block[0]) - len(block[0].lstrip()) + 4)
    note = f"{indent}… {len(block)} more lines of this object"
    kept: list[str] = []
    room = cap - len(note) - 1
    for line in block:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    if len(kept) < _LEAST:
        kept = block[:1]
    return [*kept, note.replace(f"{len(block)} more", f"{len(block) - len(kept)} more")]


def _moved(match: re.Match[str]) -> str:
    sign = match[2]
    return f"{_COLOURS.get(sign, sign[0])}{match[1]}{' ' * (len(sign) - 1)}"
