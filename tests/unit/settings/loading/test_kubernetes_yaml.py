"""Values of YAML as kubectl reads them. The expected values are from sigs.k8s.io/yaml v1.6."""

from typing import Any

import pytest

from trainstack.settings.errors import SettingsFinding
from trainstack.settings.loading.kubernetes_yaml import parse_documents
from trainstack.settings.loading.merge import to_plain


def read(text: str) -> list[Any]:
    findings = list[SettingsFinding]()
    documents = parse_documents(text, "job.yaml", findings)
    assert not findings
    return [to_plain(document) for document in documents]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("true", "True", "yes", "YES", "on", "y")),
        *((text, False) for text in ("false", "No", "off", "n")),
        *((text, None) for text in ("", "~", "null", "Null")),
        *(("0755", 493), ("0o17", 15), ("0x1F", 31), ("0b11", 3), ("-0x1f", -31), ("+12", 12), ("1_000", 1000)),
        *(
            ("08", 8),
            ("0.5", 0.5),
            (".5", 0.5),
            ("1.0", 1),
            ("1e+3", 1000),
            ("1e3", 1000),
            ("1.", 1),
            ("1e400", "1e400"),
            ("1_0.5", 10.5),
        ),
        *(("18446744073709551615", (1 << 64) - 1), ("-9223372036854775808", -(1 << 63))),
        *(("2024-01-01", "2024-01-01"), ("1:30", "1:30"), ("1Gi", "1Gi"), ("'yes'", "yes"), ('"0755"', "0755")),
        *(("!!str 755", "755"), ("!!int '7'", 7), ("!!binary aGk=", "hi"), ("1.2.3", "1.2.3")),
    ],
)
def test_scalars(text: str, value: object) -> None:
    (document,) = read(f"value: {text}\n")
    assert document == {"value": value}
    assert type(document["value"]) is type(value)


def test_documents_without_content_are_left_out() -> None:
    assert read("# a comment\n---\n---\na: 1\n---\nnull\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]
    assert read("") == []


def test_json_is_yaml() -> None:
    assert read('{"kind": "Job", "spec": {"parallelism": 2}}') == [{"kind": "Job", "spec": {"parallelism": 2}}]


def test_keys_are_strings() -> None:
    assert read("{1: a, true: b, 0x10: c}") == [{"1": "a", "true": "b", "16": "c"}]


def test_merge_keys_are_applied() -> None:
    """A later entry takes precedence, also over a merge key before it; of a list, the first map does."""
    maps = "base: &base {a: 1, b: 1}\nother: &other {b: 2, c: 2}\n"
    (document,) = read(f"{maps}map: {{<<: [*base, *other], c: 3, d: 4}}\nlate: {{c: 3, <<: *other}}\n")
    assert document["map"] == {"a": 1, "b": 1, "c": 3, "d": 4}
    assert document["late"] == {"b": 2, "c": 2}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [\n", 3, "invalid YAML"),
        ("a: 1\n---\nb: 1\nb: 2\n", 4, "duplicate key b, first set on line 3"),
        ("a: &a\n  b: *a\n", 1, "the alias refers to itself"),
        ("a:\n  <<: 3\n", 2, "not a map"),
        ("a: .inf\n", 1, "no form in JSON"),
        ("a: !Ref b\n", 1, "the tag before b is not supported"),
        ("a: !!binary é\n", 1, "base64"),
    ],
)
def test_faults_have_their_place(text: str, line: int, message: str) -> None:
    findings = list[SettingsFinding]()
    parse_documents(text, "job.yaml", findings)
    assert [(finding.where.file, finding.where.line) for finding in findings] == [("job.yaml", line)]
    assert message in findings[0].message
