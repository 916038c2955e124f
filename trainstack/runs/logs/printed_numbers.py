"""Numbers in the output of programs. Parts of a number do not count: `1,234.5` is not 1, and `12:30` is not 12."""

import re
from collections.abc import Mapping

Figure = float | str
"""A number, or the text of a value that looks like a number but cannot be read as one."""
Span = tuple[int, int]

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_LOOKS_LIKE_ONE = re.compile("[-+\N{MINUS SIGN}]*[.,]?[\\d½¼¾]")
_SCALAR = re.compile(r"(?:tensor|(?:np|numpy|torch|jnp)\.float\d+|Array|Decimal)\(")
"""The beginning of a printed scalar of a framework: `tensor(0.25, device='cuda:0')`, `np.float64(0.25)`."""
_LONGEST = 200
"""The maximum length of a value. A longer one counts as unread."""
_TOKEN = re.compile(rf"(?:[^ \t\n\v\f\r\"'|(){{}}\[\];=<>]|'(?=\d)){{0,{_LONGEST}}}")
"""A value ends at an ASCII space, but not at a space or apostrophe that separates the digits of a number."""
_MARK = re.compile(r"[,:](?!\d)")
_WITH_SPACES = re.compile(r"[-+]?[0-9]{1,3}(?: [0-9]{3})+(?:[.,][0-9]+)?(?![0-9/:%])")
_WITH_POINTS = re.compile(r"[-+]?[0-9]{1,3}(?:\.[0-9]{3})+")
"""A whole number in the notation whose decimal mark is a comma: `1.234,5`."""
_GROUP = re.compile(r"[0-9]{3}(?:[.,][0-9]+)?")
_SEPARATORS = "._'\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_CONTINUATION = re.compile(rf"[{_SEPARATORS}]?\d|[eE][-+]?\d|[xX][0-9a-fA-F]")
_UNIT = re.compile(r"[^\W\d]|/")
_WORD_BEFORE = re.compile(r"[^\s=|\"'(){}\[\];<>,:]*$")
_MOST_CHARACTERS = 48
"""The maximum length of an unread value in a report."""


def figure(text: str) -> Figure | None:
    """Read a value with or without a punctuation mark after it; None for a text that does not look like a number."""
    value = text.strip().rstrip(",;:!?%")
    # `0.5.` ends a sentence, `5.` is a number.
    for candidate in (value, value.rstrip(".%")):
        if _NUMBER.fullmatch(candidate):
            return float(candidate)
    return _reported(value) if _LOOKS_LIKE_ONE.match(value) else None


def number(text: str) -> float | None:
    """Read a value as a number; None for any other text."""
    value = figure(text)
    return value if isinstance(value, float) else None


def numbers(figures: Mapping[str, Figure]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if not isinstance(value, str)}


def number_in(figures: Mapping[str, Figure], *names: str) -> float | None:
    """Return the first of the named figures that is a number."""
    return next((value for name in names if not isinstance(value := figures.get(name, ""), str)), None)


def figure_at(text: str, start: int) -> Figure | None:
    """Read the value that begins at this position of a line."""
    if scalar := _SCALAR.match(text, start):
        start = scalar.end()
    if text[start : start + 1] in ("'", '"'):
        start += 1
    if spaced := _WITH_SPACES.match(text, start):
        return _reported(spaced[0])
    token = _MARK.split(_token(text, start), maxsplit=1)[0]
    first, comma, rest = token.partition(",")
    return figure(first) if comma and _is_column(first, rest) else figure(token)


def figure_in(text: str, span: Span, whole: Span) -> Figure:
    """Read the value that an expression has matched at `span`; the whole match is at `match_span`.

    Parts of the match around the value, such as a unit, are not part of the value. If the value is part of a longer
    number, the text of that number is returned.
    """
    (start, end), (first, last) = span, whole
    captured = text[start:end].strip(" \"'")
    value = figure(captured)
    if not isinstance(value, float):
        return value or _reported(captured)
    # The characters around the match decide whether the expression has matched a whole number or a part of one.
    before = text[max(0, start - _MOST_CHARACTERS) : start]
    if first == start and _begins_before(before, captured):
        return _reported(f"{_word_before(before)}{_token(text, start)}")
    if (
        _continues_after(captured, text[end : end + _LONGEST])
        or (last == end and _UNIT.match(text, end))
        or _WITH_SPACES.match(text, start)
    ):
        return _reported(text[start:end] + _token(text, end))
    return value


def _begins_before(before: str, value: str) -> bool:
    """Return whether a value is the end of a number that begins before it."""
    if re.search(rf"\d[{_SEPARATORS}]?$", before):
        return True
    if re.search(r"(?<!\d)\d{1,3} $", before):
        return bool(_GROUP.fullmatch(value))
    if re.search(r"\d,$", before):
        return value.isdecimal() or bool(_GROUP.fullmatch(value))
    if re.search(r"\d:$", before):
        return bool(re.fullmatch(r"\d\d(\.\d+)?", value))
    return bool(re.search(r"\d", _word_before(before)))


def _continues_after(value: str, after: str) -> bool:
    """Return whether a number continues after the value."""
    if re.match(r",\d", after):
        return not _is_column(value, _token(after, 1))
    if re.match(r":\d", after):
        return "." not in value
    return bool(_CONTINUATION.match(after))


def _is_column(value: str, rest: str) -> bool:
    """Return whether a comma separates two values, as in `0.25,0.9`, and not the digits of one."""
    return "." in value and not (_WITH_POINTS.fullmatch(value) and re.match(r"\d+(?![.\d])", rest))


def _token(text: str, start: int) -> str:
    match = _TOKEN.match(text, start)
    token = match[0] if match else ""
    return token if len(token) < _LONGEST else f"{token}…"


def _word_before(before: str) -> str:
    match = _WORD_BEFORE.search(before)
    return match[0] if match else ""


def _reported(value: str) -> str:
    return value if len(value) <= _MOST_CHARACTERS else f"{value[: _MOST_CHARACTERS - 1]}…"
