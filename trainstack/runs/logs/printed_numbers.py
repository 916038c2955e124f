"""Numbers in the output of programs. Parts of a number do not count: `1,234.5` is not 1, and `12:30` is not 12."""

import re
from collections.abc import Mapping

Figure = float | str
"""A number, or the text of a value that looks like a number but cannot be read as one."""
Span = tuple[int, int]

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_LOOKS_LIKE_NUMBER = re.compile("[-+\N{MINUS SIGN}]*[.,]?[\\d½¼¾]")
_SCALAR = re.compile(r"(?:tensor|(?:np|numpy|torch|jnp)\.float\d+|Array|Decimal)\(")
"""The beginning of a printed scalar of a framework: `tensor(0.25, device='cuda:0')`, `np.float64(0.25)`."""
_MAX_VALUE_CHARACTERS = 200
"""The maximum length of a value. A longer one counts as unread."""
_TOKEN = re.compile(rf"(?:[^ \t\n\v\f\r\"'|(){{}}\[\];=<>]|'(?=\d)){{0,{_MAX_VALUE_CHARACTERS}}}")
"""A value ends at an ASCII space, but not at a space or apostrophe that separates the digits of a number."""
_PUNCTUATION = re.compile(r"[,:](?!\d)")
_SPACED_NUMBER = re.compile(r"[-+]?[0-9]{1,3}(?: [0-9]{3})+(?:[.,][0-9]+)?(?![0-9/:%])")
_POINTED_NUMBER = re.compile(r"[-+]?[0-9]{1,3}(?:\.[0-9]{3})+")
"""A whole number in the notation whose decimal mark is a comma: `1.234,5`."""
_GROUP = re.compile(r"[0-9]{3}(?:[.,][0-9]+)?")
_SEPARATORS = "._'\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_CONTINUATION = re.compile(rf"[{_SEPARATORS}]?\d|[eE][-+]?\d|[xX][0-9a-fA-F]")
_UNIT = re.compile(r"[^\W\d]|/")
_WORD_BEFORE = re.compile(r"[^\s=|\"'(){}\[\];<>,:]*$")
_MAX_REPORTED_CHARACTERS = 48
"""The maximum length of an unread value in a report."""


def parse_figure(text: str) -> Figure | None:
    """Read a value with or without a punctuation mark after it; None for a text that does not look like a number."""
    value = text.strip().rstrip(",;:!?%")
    # `0.5.` ends a sentence, `5.` is a number.
    for candidate in (value, value.rstrip(".%")):
        if _NUMBER.fullmatch(candidate):
            return float(candidate)
    return _truncate(value) if _LOOKS_LIKE_NUMBER.match(value) else None


def parse_number(text: str) -> float | None:
    """Read a value as a number; None for any other text."""
    value = parse_figure(text)
    return value if isinstance(value, float) else None


def numeric_figures(figures: Mapping[str, Figure]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if not isinstance(value, str)}


def first_number(figures: Mapping[str, Figure], *names: str) -> float | None:
    """Return the first of the named figures that is a number."""
    return next((value for name in names if not isinstance(value := figures.get(name, ""), str)), None)


def parse_figure_at(text: str, start: int) -> Figure | None:
    """Read the value that begins at this position of a line."""
    if scalar := _SCALAR.match(text, start):
        start = scalar.end()
    if text[start : start + 1] in ("'", '"'):
        start += 1
    if spaced := _SPACED_NUMBER.match(text, start):
        return _truncate(spaced[0])
    token = _PUNCTUATION.split(_token(text, start), maxsplit=1)[0]
    before_comma, comma, after_comma = token.partition(",")
    return parse_figure(before_comma) if comma and _is_column(before_comma, after_comma) else parse_figure(token)


def parse_matched_figure(text: str, span: Span, match_span: Span) -> Figure:
    """Read the value that an expression has matched at `span`; the whole match is at `match_span`.

    Parts of the match around the value, such as a unit, are not part of the value. If the value is part of a longer
    number, the text of that number is returned.
    """
    (start, end), (match_start, match_end) = span, match_span
    captured = text[start:end].strip(" \"'")
    value = parse_figure(captured)
    if not isinstance(value, float):
        return value or _truncate(captured)
    # The characters around the match decide whether the expression has matched a whole number or a part of one.
    text_before = text[max(0, start - _MAX_REPORTED_CHARACTERS) : start]
    if match_start == start and _begins_before(text_before, captured):
        return _truncate(f"{_word_before(text_before)}{_token(text, start)}")
    if (
        _continues_after(captured, text[end : end + _MAX_VALUE_CHARACTERS])
        or (match_end == end and _UNIT.match(text, end))
        or _SPACED_NUMBER.match(text, start)
    ):
        return _truncate(text[start:end] + _token(text, end))
    return value


def _begins_before(text_before: str, value: str) -> bool:
    """Return whether a value is the end of a number that begins before it."""
    if re.search(rf"\d[{_SEPARATORS}]?$", text_before):
        return True
    if re.search(r"(?<!\d)\d{1,3} $", text_before):
        return bool(_GROUP.fullmatch(value))
    if re.search(r"\d,$", text_before):
        return value.isdecimal() or bool(_GROUP.fullmatch(value))
    if re.search(r"\d:$", text_before):
        return bool(re.fullmatch(r"\d\d(\.\d+)?", value))
    return bool(re.search(r"\d", _word_before(text_before)))


def _continues_after(value: str, text_after: str) -> bool:
    """Return whether a number continues after the value."""
    if re.match(r",\d", text_after):
        return not _is_column(value, _token(text_after, 1))
    if re.match(r":\d", text_after):
        return "." not in value
    return bool(_CONTINUATION.match(text_after))


def _is_column(value: str, after_comma: str) -> bool:
    """Return whether a comma separates two values, as in `0.25,0.9`, and not the digits of one."""
    return "." in value and not (_POINTED_NUMBER.fullmatch(value) and re.match(r"\d+(?![.\d])", after_comma))


def _token(text: str, start: int) -> str:
    match = _TOKEN.match(text, start)
    token = match[0] if match else ""
    return token if len(token) < _MAX_VALUE_CHARACTERS else f"{token}…"


def _word_before(text_before: str) -> str:
    match = _WORD_BEFORE.search(text_before)
    return match[0] if match else ""


def _truncate(value: str) -> str:
    return value if len(value) <= _MAX_REPORTED_CHARACTERS else f"{value[: _MAX_REPORTED_CHARACTERS - 1]}…"
