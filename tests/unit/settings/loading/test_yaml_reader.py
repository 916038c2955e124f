"""YAML is read with the position of every value, and ambiguous values are refused."""

import json
from pathlib import Path

import pytest

from trainstack.settings.errors import Place, SettingsFinding
from trainstack.settings.loading.merge import to_plain, walk
from trainstack.settings.loading.yaml_reader import read_map


def read_text(tmp_path: Path, text: str, file: str = "f.yaml") -> tuple[object, list[str]]:
    """Return the content of a file and its faults."""
    (tmp_path / file).write_text(text, encoding="utf-8")
    findings: list[SettingsFinding] = []
    return to_plain(read_map(tmp_path, file, findings)), [str(finding) for finding in findings]


def test_only_true_and_false_are_booleans(tmp_path: Path) -> None:
    """Booleans and base-60 numbers of other YAML versions are text; plain decimals are numbers."""
    text = "{a: true, b: no, c: on, d: y, e: 1:30, f: 12, g: -1, h: 1.5, i: 1e3, j: null, k: '12', l: ~, m: v1.0}"
    expected = {"a": True, "b": "no", "c": "on", "d": "y", "e": "1:30", "f": 12, "g": -1, "h": 1.5, "i": 1000.0}
    assert read_text(tmp_path, text) == ({**expected, "j": None, "k": "12", "l": None, "m": "v1.0"}, [])


@pytest.mark.parametrize("word", ["0777", "0x1F", "0o17", "1_000", "+5", "True", "FALSE", ".inf", ".NaN", "2024-01-01"])
def test_values_on_which_parsers_disagree_are_refused(tmp_path: Path, word: str) -> None:
    """A plain scalar that the engine may parse differently must be quoted."""
    remedy = f'write "{word}" for a string, else a plain decimal, true or false'
    expected = f"f.yaml:1: YAML parsers disagree about {word}; {remedy}"
    assert read_text(tmp_path, f"a: {word}") == ({"a": word}, [expected])
    assert read_text(tmp_path, f"a: '{word}'") == ({"a": word}, [])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml:3: duplicate key a, first set on line 1; keep one of them"),
        ("a:\n  1: 2", "f.yaml:2: the key 1 is not a string; put it in quotes"),
        (
            "a: &x {b: 1}\nc:\n  <<: *x",
            "f.yaml:3: merge keys (`<<`) are not supported; put shared values into defaults.yaml or workload.yaml",
        ),
        (
            "a: !!str 1",
            "f.yaml:1: the tag before 1 is not supported; write the plain value, in quotes if it is a string",
        ),
        ("a: !x {}", "f.yaml:1: the tag !x is not supported; write plain values"),
        ("a: &x [*x]", "f.yaml:1: the alias refers to itself; write the value out"),
        ("- a", "f.yaml:1: the file is not a map; write `key: value` lines"),
        ("a: [1\nb: 2", "f.yaml:2: invalid YAML: did not find expected ',' or ']'; correct the syntax"),
    ],
)
def test_faults_have_line_and_remedy(tmp_path: Path, text: str, fault: str) -> None:
    """Ambiguous or invalid syntax is a fault."""
    assert read_text(tmp_path, text)[1] == [fault]


@pytest.mark.parametrize("text", ["\nx\n", "\n\nx", " x\ny", "\tx\ny", "\n"])
def test_texts_that_the_engine_breaks_when_it_rewrites_a_file_are_refused(tmp_path: Path, text: str) -> None:
    """They are multi-line texts with leading white space, in files that the engine writes."""
    written = f"a:\n- b: {json.dumps(text)}\n- {{c: ' x', d: \"x\\n y\\n\"}}\n"
    value = {"a": ({"b": text}, {"c": " x", "d": "x\n y\n"})}
    fault = (
        "Pulumi.dev.yaml:2: a text of several lines begins with white space, which the engine cannot keep; "
        "begin the text with its first word, or move it to a file of its own"
    )
    assert read_text(tmp_path, written, "Pulumi.dev.yaml") == (value, [fault])
    assert read_text(tmp_path, written, "defaults.yaml") == (value, [])


def test_an_empty_file_is_an_empty_map(tmp_path: Path) -> None:
    """A file with only comments sets no values."""
    assert read_text(tmp_path, "# nothing\n") == ({}, [])


def test_every_value_has_its_place(tmp_path: Path) -> None:
    """An entry has the place of its key, an element that of its start."""
    (tmp_path / "f.yaml").write_text("a:\n  b: [1, {name: x}]\n  c: |\n    text\n", encoding="utf-8")
    places = {path: node.where for path, node in walk(read_map(tmp_path, "f.yaml", []))}
    assert places == {
        "": Place("f.yaml", 1, 1),
        "a": Place("f.yaml", 1, 1),
        "a.b": Place("f.yaml", 2, 3),
        "a.b[0]": Place("f.yaml", 2, 7),
        "a.b[x]": Place("f.yaml", 2, 10),
        "a.b[x].name": Place("f.yaml", 2, 11),
        "a.c": Place("f.yaml", 3, 3),
    }


DEEP = 100_000


@pytest.mark.parametrize("text", ["a: " + "[" * DEEP, "- " * DEEP, "? " * DEEP, "a: " + "{b: " * 200 + "1" + "}" * 200])
def test_values_that_are_nested_too_deeply_are_refused(tmp_path: Path, text: str) -> None:
    """The stacks of the parser and of Python do not overflow."""
    value, found = read_text(tmp_path, text)
    assert (value, found) == ({}, ["f.yaml:1: invalid YAML: values are nested more than 50 deep; correct the syntax"])


def test_aliases_of_aliases_are_refused(tmp_path: Path) -> None:
    """A few lines that expand to a billion values take no time and no memory. A few aliases are accepted."""
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 10)]
    _, found = read_text(tmp_path, "\n".join(lines))
    assert found == ["f.yaml:1: aliases repeat more than 10000 values; write the values out"]
    assert read_text(tmp_path, "a: &a {b: [1]}\nc: *a\nd: *a") == ({key: {"b": (1,)} for key in "acd"}, [])


@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 5_000, "0." + "3" * 5_000])
def test_numbers_of_thousands_of_digits_are_refused(tmp_path: Path, number: str) -> None:
    """Python cannot parse such an integer."""
    expected = f"f.yaml:2: the number has {len(number)} characters; shorten it, or put it in quotes if it is a string"
    assert read_text(tmp_path, f"a: 1\nb: {number}") == ({"a": 1, "b": None}, [expected])
    assert read_text(tmp_path, f"b: '{number}'") == ({"b": number}, [])
