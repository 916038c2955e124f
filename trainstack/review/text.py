"""Embed text of untrusted authors in our Markdown, without effect on it.

GitHub renders no mention, link, reference or HTML inside a code span or a fence. So all text that is not part of our
source is in one of the two, and cannot end it.
"""

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal control sequences, such as colors."""
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
"""Characters that some readers treat as line ends."""
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Invisible characters, and characters that reverse the direction of text (https://trojansource.codes)."""
_TICKS = re.compile("`+")


def clean(text: str) -> str:
    """Return the text with plain line ends, without control sequences and with invisible characters escaped."""
    plain = _BREAKS.sub("\n", _ESCAPES.sub("", text))
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", plain)


def code(text: str, limit: int = 200) -> str:
    """Return the text as a code span of one line, cut to `limit` characters."""
    line = " ".join(clean(text).split()).replace("`", "'")
    return f"`{line[: limit - 1] + '…' if len(line) > limit else line or ' '}`"


def fence(text: str, language: str = "") -> str:
    """Return the text as a fenced block whose fence is longer than any run of backticks in it."""
    body = clean(text).strip("\n")
    ticks = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(body))])
    return f"{ticks}{language}\n{body}\n{ticks}"


def width(text: str) -> int:
    """Return the length of a text in UTF-16 units, the largest count that GitHub may use."""
    return len(text.encode("utf-16-le")) // 2


def fit(lengths: list[int], budget: int) -> int:
    """Return the largest cap for which the sum of `min(length, cap)` is at most `budget`.

    The longest length if everything fits, 0 if nothing does.
    """
    left, rest = max(budget, 0), sorted(lengths)
    for index, length in enumerate(rest):
        share = left // (len(rest) - index)
        if length > share:
            return share
        left -= length
    return rest[-1] if rest else 0
