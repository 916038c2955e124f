"""Adding to an environment's file: what is added appears, and nothing else changes."""

import difflib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainstack.errors import TrainstackError
from trainstack.onboarding.editing import Entry, with_entries

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
    """The lines that are new; fails when one is gone or moved."""
    changes = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
    assert not [line for line in changes if line[0] == "-"]
    return [line[2:] for line in changes]


def test_an_element_stands_behind_the_others_as_they_are_written() -> None:
    """Its list's indent, short maps on one line; comments, spaces and quotes of other lines stay."""
    after = with_entries(FILE, [Entry(("queues", "localQueues"), QUEUE, comment="New.")])
    assert added(FILE, after) == ["      # New.", "      - {name: b, namespace: b, clusterQueue: b}"]
    assert after.index("tight") < after.index("New.") < after.index("Before the flavors")


def test_a_new_key_stands_before_the_comment_of_the_next_section() -> None:
    """A comment stays with what it is about."""
    after = with_entries(FILE, [Entry(("environment", "existing", "namespaces"), "c")])
    assert added(FILE, after) == ["    existing:", "      namespaces: [c]"]
    assert after.index("existing") < after.index("About queues")


def test_a_new_section_stands_last_and_within_config() -> None:
    """The engine's own keys stay behind it."""
    after = with_entries(FILE, [Entry(("tenants", "teams"), {"name": "b", "groups": ["0777", "no", "x: y"]})])
    assert list(yaml.safe_load(after)["config"])[-1] == "trainstack:tenants"
    assert "    teams:\n      - {name: b, groups: ['0777', no, 'x: y']}\n" in after
    assert after.endswith("encryptionsalt: v1:abc:=\n# The end.\n")


def test_an_empty_list_is_filled() -> None:
    """As a block, since what comes may not fit between brackets."""
    after = with_entries(FILE, [Entry(("queues", "cohorts"), {"name": "b"})])
    assert "    cohorts:\n      - {name: b}\n" in after


def test_lists_that_are_not_indented_stay_so() -> None:
    """Both ways of writing lists are people's own."""
    text = "config:\n  trainstack:queues:\n    flavors:\n    - name: x\n"
    assert with_entries(text, [Entry(("queues", "flavors"), {"name": "b"})]) == f"{text}    - {{name: b}}\n"


def test_a_file_without_a_newline_at_its_end_is_added_to() -> None:
    """What is added stands on a line of its own, and the last line still has no end."""
    text = "config:\n  trainstack:queues:\n    flavors:\n      - {name:  x}  # tight"
    after = with_entries(text, [Entry(("queues", "flavors"), {"name": "b"})])
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
        Entry(("queues", "flavors"), {"name": "b"}),
        Entry(("queues", "cohorts"), {"name": "b"}),
        Entry(("environment", "existing", "namespaces"), "b"),
        Entry(("operators",), {}, whole=True, comment="There already."),
    ],
    ids=["element", "list", "section", "value"],
)
def test_maps_of_another_indent_are_added_to(text: str, entry: Entry) -> None:
    """The file says the same and the new entry, whatever its lines look like; no comment is lost."""
    after = with_entries(text, [entry])
    wanted = yaml.safe_load(text)
    place = wanted["config"]
    keys = (f"trainstack:{entry.path[0]}", *entry.path[1:])
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    place[keys[-1]] = entry.value if entry.whole else [*place.get(keys[-1], []), entry.value]
    assert yaml.safe_load(after) == wanted
    assert [comment for comment in ("# one", "# There already.") if comment not in after] == (
        [] if entry.comment else ["# There already."]
    )


def test_a_file_that_is_written_anew_keeps_each_comment_with_its_own() -> None:
    """What is added to a list stands before the comment of the next section."""
    text = "config:\n    trainstack:queues:\n        flavors:\n            - {name: x}\n    # Next.\n    other: 1\n"
    after = with_entries(text, [Entry(("queues", "flavors"), {"name": "b"})])
    flavors = "    flavors:\n      - {name: x}\n      - {name: b}\n"
    assert after == f"config:\n  trainstack:queues:\n{flavors}    # Next.\n  other: 1\n"


def test_nothing_to_add_changes_nothing() -> None:
    """Not even what the library would write in another way."""
    assert with_entries(FILE, []) == FILE


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("config: [", "not YAML"),
        ("- a\n", "the file is not a map"),
        ("config:\n  trainstack:queues: text\n", "trainstack:queues is not a map"),
        ("config:\n  trainstack:queues: {localQueues: text}\n", "localQueues is not a list"),
    ],
)
def test_what_cannot_be_added_to_is_a_fault(text: str, fault: str) -> None:
    """Nothing is replaced by what is added."""
    with pytest.raises(TrainstackError, match=fault):
        with_entries(text, [Entry(("queues", "localQueues"), QUEUE)])


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
    """Whatever stands there: parsed, the file differs by the element alone."""
    held = [{"name": f"n{word}", "labels": {"a": word}} for word in words]
    text = yaml.safe_dump({"config": {"trainstack:queues": {field: held, "z": 1}}}, sort_keys=False, indent=indent)
    text = text if newline else text.rstrip("\n")
    after = yaml.safe_load(with_entries(text, [Entry(("queues", field), {"name": f"n{name}"})]))
    assert after == {"config": {"trainstack:queues": {field: [*held, {"name": f"n{name}"}], "z": 1}}}


ENTRIES = [Entry(("queues", "localQueues"), QUEUE), Entry(("tenants", "teams"), {"name": "b"})]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_files_own_ends_of_lines_are_kept(end: str, mark: str, *, last: bool) -> None:
    """Its byte order mark too, and a last line without an end; the same lines are added whatever the file has."""
    plain = FILE if last else FILE.removesuffix("\n")
    after = with_entries(mark + plain.replace("\n", end), ENTRIES)
    assert after == mark + with_entries(plain, ENTRIES).replace("\n", end)
    assert after.endswith(end) is last


def test_lines_of_both_kinds_stay_as_they_are() -> None:
    """New lines get the more frequent end."""
    lines = FILE.splitlines()
    mixed = "".join(line + ("\n" if index % 3 else "\r\n") for index, line in enumerate(lines))
    after = with_entries(mixed, ENTRIES)
    assert added(FILE, after) == added(FILE, with_entries(FILE, ENTRIES))
    old = mixed.splitlines(keepends=True)
    assert [line for line in after.splitlines(keepends=True) if line in old] == old
    assert [line for line in after.splitlines(keepends=True) if line not in old and line.endswith("\r\n")] == []
