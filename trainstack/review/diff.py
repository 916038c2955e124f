"""The engine's diff as text: one block for each object, in the format that GitHub colors, shortened to a limit."""

import re
from collections.abc import Iterator

from trainstack.review.secret import without_secret_data
from trainstack.review.text import fit

_HEADER = re.compile(r"^[ +\-~=><!]*(?P<type>[\w.:/$-]+:[\w.:/$-]+): \((?P<op>[a-z-]+)\)")
OBJECT = "diff "
"""The prefix of the line above each object in a diff of rendered manifests."""
_SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 (a kind)
_NOISE = re.compile(r"^\s*\[(?:provider|urn)=")
"""Lines that are the same for all objects, except for the URN's name, which `tidy` appends to the header."""
_URN = re.compile(r"^\s*\[urn=.*::(?P<name>[^\]]+)\]$")
_SIGN = re.compile(r"^( *)(?!--outputs)(\+\+|--|\+-|-\+|[+\-~])(?=[\[\w\s\"])")
_COLORS = {"~": "!", "+-": "!", "-+": "!"}
_MIN_LINES = 3
"""The minimum lines of a shortened block; a block with fewer keeps only its header."""


def tidy(diff: str) -> str:
    """Return the output of `pulumi preview --diff` without the data of Secrets, with object names in the headers."""
    lines = []
    for block in _blocks(diff):
        match = _HEADER.match(block[0])
        secret = match is not None and match["type"] == _SECRET
        name = next((urn["name"] for line in block if (urn := _URN.match(line))), None)
        head = block[0] if name is None or match is None else f"{block[0]} {name}"
        lines += [head, *(without_secret_data(block) if secret else block)[1:]]
    return "\n".join(line.rstrip() for line in lines if not _NOISE.match(line))


def colored(diff: str) -> str:
    """Move the sign of each line to its beginning, as GitHub requires for colors."""
    return "\n".join(_SIGN.sub(_moved, line, count=1) for line in diff.split("\n"))


def shortened(diff: str, limit: int) -> str:
    """Cut the diff to at most `limit` characters, with notes on omitted lines; the longest objects are cut first."""
    if len(diff) <= limit:
        return diff
    blocks = list(_blocks(diff))
    cap = fit([_size(block) for block in blocks], limit)
    short = "\n".join(line for block in blocks for line in _cut(block, cap))
    if len(short) <= limit:
        return short
    # Too many objects: keep whole lines of the first ones.
    note = "… the rest is omitted"
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
    kept: list[str] = []
    room = cap - len(f"{indent}… {len(block)} more lines of this object") - 1
    for line in block:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    if len(kept) < _MIN_LINES:
        kept = block[:1]
    return [*kept, f"{indent}… {len(block) - len(kept)} more lines of this object"]


def _moved(match: re.Match[str]) -> str:
    sign = match[2]
    return f"{_COLORS.get(sign, sign[0])}{match[1]}{' ' * (len(sign) - 1)}"
