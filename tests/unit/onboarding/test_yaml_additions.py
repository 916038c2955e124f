"""Additions to an environment's file do not change other lines."""

import difflib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainstack.errors import TrainstackError
from trainstack.onboarding.yaml_additions import FileAddition, add_section_entries

FILE = """\
# Whose file this is.
config:
  trainstack:environment:
    namespaces:
      - name: a   # the first
        labels: {x: y}

  # About queues.
  trainstack:queues:
    localQueues:
      - {name: a,   namespace: "a"}   # tight
    # Before the flavors.
    flavors: [ {name: x} ]
    cohorts: []
    priorityClasses: null
encryptionsalt: v1:abc:=
# The end.
"""
QUEUE = {"name": "b", "namespace": "b", "clusterQueue": "b"}


def added(before: str, after: str) -> list[str]:
    """Return the new lines; fail if a line was removed or moved."""
    changes = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
    assert not [line for line in changes if line[0] == "-"]
    return [line[2:] for line in changes]


def test_an_element_is_appended_in_the_style_of_its_list() -> None:
    """It has the list's indent, and short maps are on one line. Comments, spaces and quotes of other lines are kept."""
    after = add_section_entries(FILE, [FileAddition(("queues", "localQueues"), QUEUE, comment="New.")])
    assert added(FILE, after) == ["      # New.", "      - {name: b, namespace: b, clusterQueue: b}"]
    assert after.index("tight") < after.index("New.") < after.index("Before the flavors")


def test_a_new_key_is_inserted_before_the_comment_of_the_next_section() -> None:
    """A comment stays with its section."""
    after = add_section_entries(FILE, [FileAddition(("environment", "existing", "namespaces"), "c")])
    assert added(FILE, after) == ["    existing:", "      namespaces: [c]"]
    assert after.index("existing") < after.index("About queues")


def test_a_new_section_is_the_last_in_config() -> None:
    """The engine's own keys follow it."""
    after = add_section_entries(
        FILE, [FileAddition(("tenants", "teams"), {"name": "b", "groups": ["0777", "no", "x: y"]})]
    )
    assert list(yaml.safe_load(after)["config"])[-1] == "trainstack:tenants"
    assert "    teams:\n      - {name: b, groups: ['0777', no, 'x: y']}\n" in after
    assert after.endswith("encryptionsalt: v1:abc:=\n# The end.\n")


def test_an_empty_list_is_filled() -> None:
    """The new list is a block, because the element may not fit between brackets."""
    after = add_section_entries(FILE, [FileAddition(("queues", "cohorts"), {"name": "b"})])
    assert "    cohorts:\n      - {name: b}\n" in after


def test_lists_without_indent_keep_their_style() -> None:
    """Both styles of lists are valid."""
    text = "config:\n  trainstack:queues:\n    flavors:\n    - name: x\n"
    assert (
        add_section_entries(text, [FileAddition(("queues", "flavors"), {"name": "b"})]) == f"{text}    - {{name: b}}\n"
    )


def test_an_addition_to_a_file_without_a_final_newline() -> None:
    """The addition is on a new line, and the file still has no final newline."""
    text = "config:\n  trainstack:queues:\n    flavors:\n      - {name:  x}  # tight"
    after = add_section_entries(text, [FileAddition(("queues", "flavors"), {"name": "b"})])
    assert after == f"{text}\n      - {{name: b}}"


@pytest.mark.parametrize(
    "text",
    [
        "config:\n    trainstack:queues:\n        flavors:\n            - name: x\n              a: 1  # one\n",
        "config:\n    trainstack:queues:\n        flavors:\n        - name: x\n          a: 1  # one\n",
        "config:\n   trainstack:queues:\n      flavors: [{name: x, a: 1}]  # one\n",
    ],
    ids=["four spaces", "four spaces, lists not indented", "three spaces"],
)
@pytest.mark.parametrize(
    "entry",
    [
        FileAddition(("queues", "flavors"), {"name": "b"}),
        FileAddition(("queues", "cohorts"), {"name": "b"}),
        FileAddition(("environment", "existing", "namespaces"), "b"),
        FileAddition(("operators",), {}, replaces_value=True, comment="There already."),
    ],
    ids=["element", "list", "section", "value"],
)
def test_additions_to_maps_with_another_indent(text: str, entry: FileAddition) -> None:
    """The parsed file differs only by the new entry, and no comment is lost."""
    after = add_section_entries(text, [entry])
    expected = yaml.safe_load(text)
    section = expected["config"]
    keys = (f"trainstack:{entry.path[0]}", *entry.path[1:])
    for key in keys[:-1]:
        section = section.setdefault(key, {})
    section[keys[-1]] = entry.value if entry.replaces_value else [*section.get(keys[-1], []), entry.value]
    assert yaml.safe_load(after) == expected
    assert [comment for comment in ("# one", "# There already.") if comment not in after] == (
        [] if entry.comment else ["# There already."]
    )


def test_a_rewritten_file_keeps_each_comment_with_its_section() -> None:
    """An addition to a list is before the comment of the next section."""
    text = "config:\n    trainstack:queues:\n        flavors:\n            - {name: x}\n    # Next.\n    other: 1\n"
    after = add_section_entries(text, [FileAddition(("queues", "flavors"), {"name": "b"})])
    flavors = "    flavors:\n      - {name: x}\n      - {name: b}\n"
    assert after == f"config:\n  trainstack:queues:\n{flavors}    # Next.\n  other: 1\n"


def test_without_entries_the_file_does_not_change() -> None:
    """The library would write some lines in another style."""
    assert add_section_entries(FILE, []) == FILE


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("config: [", "not YAML"),
        ("- a\n", "the file is not a map"),
        ("config:\n  trainstack:queues: text\n", "trainstack:queues is not a map"),
        ("config:\n  trainstack:queues: {localQueues: text}\n", "localQueues is not a list"),
    ],
)
def test_an_addition_to_another_type_of_value_is_a_fault(text: str, fault: str) -> None:
    """An addition never replaces a value."""
    with pytest.raises(TrainstackError, match=fault):
        add_section_entries(text, [FileAddition(("queues", "localQueues"), QUEUE)])


NAMES = st.text("abcdefgh-", min_size=1, max_size=8)


@settings(max_examples=settings().max_examples // 2)  # each example writes the file several times
@given(
    st.lists(NAMES, max_size=4),
    NAMES,
    st.sampled_from(["flavors", "cohorts", "localQueues", "clusterQueues"]),
    st.sampled_from([2, 3, 4, 8]),
    st.booleans(),
)
def test_the_result_is_the_old_value_and_the_new_element(
    words: list[str], name: str, field: str, indent: int, newline: bool
) -> None:
    """The parsed file differs only by the element."""
    elements = [{"name": f"n{word}", "labels": {"a": word}} for word in words]
    text = yaml.safe_dump({"config": {"trainstack:queues": {field: elements, "z": 1}}}, sort_keys=False, indent=indent)
    text = text if newline else text.rstrip("\n")
    after = yaml.safe_load(add_section_entries(text, [FileAddition(("queues", field), {"name": f"n{name}"})]))
    assert after == {"config": {"trainstack:queues": {field: [*elements, {"name": f"n{name}"}], "z": 1}}}


ENTRIES = [FileAddition(("queues", "localQueues"), QUEUE), FileAddition(("tenants", "teams"), {"name": "b"})]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_endings_of_the_file_are_kept(end: str, mark: str, *, last: bool) -> None:
    """Its byte order mark and a missing final newline are kept too. The added lines do not depend on them."""
    plain = FILE if last else FILE.removesuffix("\n")
    after = add_section_entries(mark + plain.replace("\n", end), ENTRIES)
    assert after == mark + add_section_entries(plain, ENTRIES).replace("\n", end)
    assert after.endswith(end) is last


def test_mixed_line_endings_are_kept() -> None:
    """New lines get the more frequent line ending."""
    lines = FILE.splitlines()
    mixed = "".join(line + ("\n" if index % 3 else "\r\n") for index, line in enumerate(lines))
    after = add_section_entries(mixed, ENTRIES)
    assert added(FILE, after) == added(FILE, add_section_entries(FILE, ENTRIES))
    old = mixed.splitlines(keepends=True)
    assert [line for line in after.splitlines(keepends=True) if line in old] == old
    assert [line for line in after.splitlines(keepends=True) if line not in old and line.endswith("\r\n")] == []
