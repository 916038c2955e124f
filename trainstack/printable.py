"""Text of others, without effect on the terminal that prints it: logs, file names, answers of servers, messages."""

import re

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P^_X][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal control sequences: colors and cursor movements (CSI), titles and links (OSC), and other strings."""
_LINE_END = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
"""Characters that some readers treat as line ends."""
_NOT_ASCII_TEXT = re.compile(r"[^\n\t -~]+")
_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""White space with a width, as in numbers and in East Asian text."""
_NOT_PLAIN = re.compile(rf"[^\n\t -~{_SPACES}]+")

_PARAMETER = "(?:[0-47]|2[2-7]|[39][0-79]|[34]8;5;[0-9]{1,3})"
_COLOR = re.compile(rf"(\x1b\[(?:{_PARAMETER}(?:;{_PARAMETER})*)?m)")
"""Colors and weights, but not invisible text."""


def printable(text: str) -> str:
    r"""Escape characters that are not visible: `\x1b`, and among others those that reverse the direction of text.

    This includes all white space but spaces, tabs and line ends, which in a settings file is a mistake.
    """
    return _NOT_ASCII_TEXT.sub(_escape, text)


def clean(text: str) -> str:
    """Return the text without control sequences, with plain line ends, and with invisible characters escaped.

    Without control sequences, text can neither move the cursor nor set titles, colors or links; without characters that
    reverse the direction of text (https://trojansource.codes), it is displayed in its stored order.
    """
    return text if text.isprintable() else _NOT_PLAIN.sub(_escape, _LINE_END.sub("\n", _SEQUENCE.sub("", text)))


def clean_colored(text: str) -> str:
    """Clean the output of a Trainstack program, and keep its colors."""
    # Each second part is a color.
    return "".join(part if index % 2 else clean(part) for index, part in enumerate(_COLOR.split(text)))


def _escape(match: re.Match[str]) -> str:
    run = match.group()
    return run if run.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in run)
