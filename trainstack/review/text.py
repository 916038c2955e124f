"""Text of others in Markdown of ours: it may say anything and must not do anything.

In a code span or a fence GitHub makes no mention, link, reference or HTML of what it finds. So whatever does not stand
in our own source goes into one of the two, and can break out of neither.
"""

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours and other commands to a terminal."""
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
"""What some reader or other takes for the end of a line."""
_UNSEEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""Characters that are not seen, or that turn around how others are shown (https://trojansource.codes)."""
_TICKS = re.compile("`+")


def clean(text: str) -> str:
    """The text with plain line ends, without commands to a terminal, and with what is not seen spelt out."""
    plain = _BREAKS.sub("\n", _ESCAPES.sub("", text))
    return _UNSEEN.sub(lambda match: f"\\u{ord(match.group()):04x}", plain)


def code(text: str, limit: int = 200) -> str:
    """The text as a code span of one line, cut to `limit` characters."""
    line = " ".join(clean(text).split()).replace("`", "'")
    return f"`{line[: limit - 1] + '…' if len(line) > limit else line or ' '}`"


def fence(text: str, language: str = "") -> str:
    """The text as a fenced block, whose fence is longer than anything like one in it."""
    body = clean(text).strip("\n")
    longest = max((len(run) for run in _TICKS.findall(body)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def width(text: str) -> int:
    """How long a text is for GitHub, at most: in UTF-16 units, so that no way of counting finds more."""
    return len(text.encode("utf-16-le")) // 2


def fit(lengths: list[int], budget: int) -> int:
    """The cap that makes the longest shorter until all fit: the sum of `min(length, cap)` is at most `budget`.

    The largest such cap; the longest length where all fit uncut, 0 where nothing fits.
    """
    left, rest = max(budget, 0), sorted(lengths)
    for index, length in enumerate(rest):
        share = left // (len(rest) - index)
        if length > share:
            return share
        left -= length
    return rest[-1] if rest else 0
