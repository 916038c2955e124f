"""The engine's diff as text: one block for each object, in the format that GitHub colors, shortened to a limit."""

import re
from collections.abc import Iterator

from trainstack.review.markdown import find_cap
from trainstack.review.secret_masking import mask_secret_data

_HEADER = re.compile(r"^[ +\-~=><!]*(?P<type>[\w.:/$-]+:[\w.:/$-]+): \((?P<op>[a-z-]+)\)")
OBJECT_PREFIX = "diff "
"""The prefix of the line above each object in a diff of rendered manifests."""
_SECRET_TYPE = "kubernetes:core/v1:Secret"  # noqa: S105 (a kind)
_COMMON_PROPERTY = re.compile(r"^\s*\[(?:provider|urn)=")
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
        is_secret = match is not None and match["type"] == _SECRET_TYPE
        name = next((urn["name"] for line in block if (urn := _URN.match(line))), None)
        header = block[0] if name is None or match is None else f"{block[0]} {name}"
        lines += [header, *(mask_secret_data(block) if is_secret else block)[1:]]
    return "\n".join(line.rstrip() for line in lines if not _COMMON_PROPERTY.match(line))


def color_diff(diff: str) -> str:
    """Move the sign of each line to its beginning, as GitHub requires for colors."""
    return "\n".join(_SIGN.sub(_move_sign, line, count=1) for line in diff.split("\n"))


def shorten_diff(diff: str, limit: int) -> str:
    """Cut the diff to at most `limit` characters, with notes on omitted lines; the longest objects are cut first."""
    if len(diff) <= limit:
        return diff
    blocks = list(_blocks(diff))
    cap = find_cap([_block_size(block) for block in blocks], limit)
    shortened_blocks = "\n".join(line for block in blocks for line in _cut_block(block, cap))
    if len(shortened_blocks) <= limit:
        return shortened_blocks
    # Too many objects: keep whole lines of the first ones.
    note = "… the rest is omitted"
    first_characters = shortened_blocks[: max(limit - len(note) - 1, 0)]
    return f"{first_characters[: first_characters.rfind(chr(10)) + 1]}{note}"[: max(limit, 0)]


def _blocks(diff: str) -> Iterator[list[str]]:
    block: list[str] = []
    for line in diff.split("\n"):
        if block and (_HEADER.match(line) or line.startswith((OBJECT_PREFIX, "Resources:", "    --outputs:"))):
            yield block
            block = []
        block.append(line)
    yield block


def _block_size(block: list[str]) -> int:
    return sum(len(line) + 1 for line in block)


def _cut_block(block: list[str], cap: int) -> list[str]:
    if _block_size(block) <= cap:
        return block
    indent = " " * (len(block[0]) - len(block[0].lstrip()) + 4)
    kept_lines: list[str] = []
    room = cap - len(f"{indent}… {len(block)} more lines of this object") - 1
    for line in block:
        room -= len(line) + 1
        if room < 0:
            break
        kept_lines.append(line)
    if len(kept_lines) < _MIN_LINES:
        kept_lines = block[:1]
    return [*kept_lines, f"{indent}… {len(block) - len(kept_lines)} more lines of this object"]


def _move_sign(match: re.Match[str]) -> str:
    sign = match[2]
    return f"{_COLORS.get(sign, sign[0])}{match[1]}{' ' * (len(sign) - 1)}"
