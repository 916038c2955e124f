"""Hostile content of settings files: fragments of YAML that replace a value, and damage to bytes."""

import random
from collections.abc import Callable, Mapping

LOOKALIKES = {
    "a": "\u0430",
    "c": "\u0441",
    "e": "\u0435",
    "i": "\u0456",
    "o": "\u043e",
    "p": "\u0440",
    "s": "\u0455",
    "x": "\u0445",
    "-": "\u2010",
    ":": "\uff1a",
}
"""Letters of other alphabets that look like these."""

_MANY = 50_000


def _bomb(levels: int, width: int = 9) -> str:
    """Return nested lists of aliases: `width ** levels` values in a few lines."""
    words = ["&l0 [x]"]
    words += [f"&l{level} [{', '.join([f'*l{level - 1}'] * width)}]" for level in range(1, levels + 1)]
    return f"[{', '.join(words)}]"


_WORDS = (
    *("null", "~", "true", "True", "no", "on", "y", "0", "-1", "-0", "0777", "0o17", "0x1F", "1_000"),
    *("+5", "1:30", "190:20:30", ".inf", "-.Inf", ".NaN", "1e999", "-1e999", "1e-999"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "2024-01-01"),
    *("2001-12-14t21:59:43.10-05:00", "=", "3.14", "1e3", "0.1", "1e400Gi", "1e99", "99999999999Ei"),
)

FRAGMENTS: Mapping[str, str] = {
    **{f"the plain word {word}": word for word in _WORDS},
    "the tag set": "!!set {a, b}",
    "the tag of Python": "!!python/object/apply:os.system ['true']",
    "the tag binary": "!!binary aGVsbG8=",
    "the tag int": "!!int '3'",
    "the tag float": "!!float 1",
    "the tag of our own": "!secret x",
    "an unknown handle": "!e!x y",
    "a merge key": "{<<: {a: 1}, b: 2}",
    "a merge of nothing": "{<<: *nothing}",
    "an alias of nothing": "*nothing",
    "a list of itself": "&self [*self]",
    "a map of itself": "&self {a: *self}",
    "a key that is an alias": "{? &k a : 1, *k : 2}",
    "a bomb of aliases": _bomb(9),
    "a small bomb": _bomb(3),
    "a number of many digits": "9" * 5_000,
    "a fraction of many digits": "0." + "3" * 5_000,
    "a quoted number of many digits": f'"{"9" * 5_000}"',
    "a quoted fraction of many digits": f'"0.{"3" * 5_000}Gi"',
    "a long word": "a" * _MANY,
    "a long name": "a-" * (_MANY // 2) + "a",
    "a long text of quotes": "'" + "''" * _MANY + "'",
    "a long text of dashes": '"' + "-" * _MANY + '"',
    "a long list": "[" + "1, " * 5_000 + "1]",
    "a long map": "{" + ", ".join(f"k{number}: 1" for number in range(5_000)) + "}",
    "many names": "[" + ", ".join(f"{{name: n{number}}}" for number in range(1_000)) + "]",
    "the same name often": "[" + ", ".join(["{name: same}"] * 500) + "]",
    "lists 50 deep": "[" * 50 + "]" * 50,
    "lists 2,000 deep": "[" * 2_000 + "]" * 2_000,
    "maps 2,000 deep": "{a: " * 2_000 + "1" + "}" * 2_000,
    "an escaped NUL": '"\\0"',
    "an escaped terminal code": '"\\e[2J\\e]0;title\\a"',
    "an escaped surrogate": '"\\ud800"',
    "a bidirectional override": '"\\u202egpj.sh"',
    "an emoji": '"\U0001f525"',
    "a wide digit": "\uff11\uff12",
    "an Arabic digit": "\u0663",
    "a line in a text": '"one\\ntwo"',
    "a separator of lines": '"one\\u2028two\\x85three"',
    "a shell's words": '"$(reboot); `reboot` && rm -rf / #"',
    "a path upwards": '"../../../../../etc/passwd"',
    "an absolute path": "/etc/passwd",
    "a device": "/dev/zero",
    "a folder": "workloads",
    "an empty text": '""',
    "a blank": '" "',
    "an empty map": "{}",
    "an empty list": "[]",
    "a list of nulls": "[null, null]",
    "a map with an empty key": '{"": 1}',
    "a map with a null key": "{null: 1}",
    "a map with a list for a key": "{[a, b]: 1}",
    "a template": "${parameters.nothing}",
    "markup": '"[red]x[/red] [/] <b>&amp;| `x` ](javascript:x)"',
    "a percent format": '"%s {0} {} {x!r:>99999}"',
    "a regular expression": '"(a+)+$"',
    "a constraint that grows text": "\"'x' * n * 2000000000 == 'y'\"",
    "a constraint that grows a list": '"batch_size in [0] * 1000000000"',
    "a constraint that grows a number": '"10 ** 10 ** 9 > batch_size"',
    "a constraint that shifts": '"1 << 10000000000 > batch_size"',
    "a constraint that formats": "\"'%1000000000d' % batch_size == 'y'\"",
    "a constraint of many operations": f'"{"- " * 5_000}batch_size > 1"',
    "many constraints": f'[{", ".join(["batch_size > 0"] * 5_000)}]',
    "emoji codes": "training:cat:",
    "a range of all numbers": "{low: -9223372036854775808, high: 9223372036854775807, step: 1}",
    "a range of small steps": "{low: -1.0e+300, high: 1.0e+300, step: 1.0e-300}",
    **{f"many {text}": f'"{text * _MANY}"' for text in ("_", ":", "@", "/", ".", "${", "$(", "*", "1_", "a:", "a@")},
    "plain digits and underscores": "1" + "_" * _MANY + "x",
}  # fmt: skip
"""By what it is: a fragment in flow style."""


def damage(content: bytes, rng: random.Random, changes: list[str]) -> bytes:
    """Return the content with a random damage."""
    name = rng.choice(sorted(_DAMAGES))
    changes.append(name)
    return _DAMAGES[name](content, rng)


def _at(content: bytes, rng: random.Random, new: bytes, *, instead: int = 0) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + new + content[place + instead :]


_DAMAGES: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "nothing is left": lambda _c, _r: b"",
    "comments alone": lambda _c, _r: b"# nothing\n",
    "a single word": lambda _c, _r: b"word\n",
    "a list": lambda _c, _r: b"- a\n- b\n",
    "an empty document": lambda _c, _r: b"---\n...\n",
    "several documents": lambda c, _r: c + b"\n---\n" + c,
    "a second empty document": lambda c, _r: c + b"\n---\n",
    "a directive": lambda c, _r: b"%YAML 1.3\n---\n" + c,
    "a directive of tags": lambda c, _r: b"%TAG ! tag:example.org,2000:\n---\n" + c,
    "a byte order mark": lambda c, _r: b"\xef\xbb\xbf" + c,
    "a byte order mark inside": lambda c, r: _at(c, r, b"\xef\xbb\xbf"),
    "UTF-16": lambda c, _r: c.decode().encode("utf-16"),
    "UTF-32": lambda c, _r: c.decode().encode("utf-32"),
    "Latin-1": lambda c, r: _at(c, r, b"\xe9"),
    "a surrogate in UTF-8": lambda c, r: _at(c, r, b"\xed\xa0\x80"),
    "an overlong form": lambda c, r: _at(c, r, b"\xc0\xaf"),
    "a NUL": lambda c, r: _at(c, r, b"\x00"),
    "a control character": lambda c, r: _at(c, r, bytes([r.choice((*range(1, 9), *range(14, 32), 127))])),
    "a random byte": lambda c, r: _at(c, r, r.randbytes(1), instead=1),
    "a missing byte": lambda c, r: _at(c, r, b"", instead=1),
    "random bytes": lambda _c, r: r.randbytes(500),
    "another program": lambda _c, _r: b"\x7fELF\x02\x01\x01" + bytes(60),
    "cut off": lambda c, r: c[: r.randrange(len(c) + 1)],
    "tabs for spaces": lambda c, _r: c.replace(b"  ", b"\t"),
    "a tab somewhere": lambda c, r: _at(c, r, b"\t"),
    "Windows' ends of lines": lambda c, _r: c.replace(b"\n", b"\r\n"),
    "old ends of lines": lambda c, _r: c.replace(b"\n", b"\r"),
    "a punctuation mark": lambda c, r: _at(c, r, r.choice("{}[],:'\"&*|%?-").encode()),
    "lines in another order": lambda c, r: b"\n".join(r.sample(c.split(b"\n"), c.count(b"\n") + 1)),
    "lines twice": lambda c, r: b"\n".join(line for row in c.split(b"\n") for line in [row] * r.choice((1, 1, 1, 2))),
    "lists 5,000 deep": lambda _c, _r: b"[" * 5_000,
    "dashes 20,000 deep": lambda _c, _r: b"- " * 20_000 + b"x",
    "question marks 20,000 deep": lambda _c, _r: b"? " * 20_000 + b"x",
}  # fmt: skip
"""By what is done."""
