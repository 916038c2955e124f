"""Markdown for text of untrusted authors, which cannot affect the Markdown around it.

GitHub renders no mention, link, reference or HTML inside a code span or a fence. Therefore all text that is not part of
our source is in one of the two, and cannot end it.
"""

import re

from trainstack.printable import clean

_TICKS = re.compile("`+")


def code_span(text: str, limit: int = 200) -> str:
    """Return the text as a code span of one line, cut to `limit` characters, with backticks replaced."""
    line = " ".join(clean(text).split()).replace("`", "'")
    return f"`{line[: limit - 1] + '…' if len(line) > limit else line or ' '}`"


def fence(text: str, language: str = "") -> str:
    """Return the text as a fenced block whose fence is longer than any run of backticks in it."""
    body = clean(text).strip("\n")
    ticks = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(body))])
    return f"{ticks}{language}\n{body}\n{ticks}"


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 units, the largest of the counts that GitHub may use."""
    return len(text.encode("utf-16-le")) // 2


def find_cap(lengths: list[int], budget: int) -> int:
    """Return the largest cap for which the sum of `min(length, cap)` is at most `budget`.

    The cap is the longest length if everything fits, and 0 if nothing fits.
    """
    remaining_budget, sorted_lengths = max(budget, 0), sorted(lengths)
    for index, length in enumerate(sorted_lengths):
        share = remaining_budget // (len(sorted_lengths) - index)
        if length > share:
            return share
        remaining_budget -= length
    return sorted_lengths[-1] if sorted_lengths else 0
