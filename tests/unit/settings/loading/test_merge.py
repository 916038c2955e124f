"""The merge rule of settings files."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstack.settings.errors import Place
from trainstack.settings.loading.merge import merge, overlay, prune, to_plain, walk
from trainstack.settings.loading.yaml_reader import Node

BASE, OVER, ENGINE = Place("base.yaml", 1), Place("over.yaml", 1), Place("engine")

SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"])
KEYS = st.sampled_from(["a", "b", "c"])


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    mappings = st.dictionaries(KEYS, inner, max_size=2)
    elements = st.lists(
        st.tuples(st.sampled_from(["n1", "n2", "n3"]), mappings), max_size=3, unique_by=lambda element: element[0]
    )
    return st.one_of(
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(inner, max_size=2),
        elements.map(lambda pairs: [{**entries, "name": name} for name, entries in pairs]),
    )


VALUES = st.recursive(SCALARS, _extend, max_leaves=12)
MAPS = st.dictionaries(KEYS, VALUES, max_size=3)


def make_node(value: object, where: Place = BASE) -> Node:
    """Return a node tree in which all values have one place."""
    if isinstance(value, dict):
        return Node({key: make_node(item, where) for key, item in value.items()}, where)
    if isinstance(value, list | tuple):
        return Node(tuple(make_node(item, where) for item in value), where)
    assert value is None or isinstance(value, bool | int | float | str)
    return Node(value, where, str(value))


def merged(base: object, over: object) -> object:
    """Return the values after merge and prune, with lists instead of tuples."""
    return as_lists(to_plain(prune(merge(make_node(base), make_node(over, OVER)))))


def as_lists(value: object) -> object:
    """Return the value with lists instead of tuples."""
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        pytest.param(
            {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}}, {"a": 1, "b": {"c": 4, "d": 3}}, id="maps merge"
        ),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists replace"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null deletes"),
        pytest.param({}, {"a": {"b": None}}, {"a": {}}, id="null of nothing is nothing"),
        pytest.param(
            [{"name": "x", "v": 1, "w": 2}, {"name": "y"}],
            [{"name": "z"}, {"name": "x", "v": 3}],
            [{"name": "x", "v": 3, "w": 2}, {"name": "y"}, {"name": "z"}],
            id="named elements merge in the base's order, new ones follow",
        ),
        pytest.param([{"name": "x"}], [], [], id="an empty list empties"),
        pytest.param([{"name": "x"}], [{"volume": "v"}], [{"volume": "v"}], id="elements without a name replace"),
        pytest.param(
            [{"name": "x", "namespace": "a"}],
            [{"name": "x", "namespace": "b"}],
            [{"name": "x", "namespace": "a"}, {"name": "x", "namespace": "b"}],
            id="one name in two namespaces is two elements",
        ),
        pytest.param(
            [{"name": "x", "namespace": "a"}],
            [{"name": "x", "v": 1}],
            [{"name": "x", "namespace": "a", "v": 1}],
            id="the namespace may be inherited from the base",
        ),
        pytest.param(
            [{"name": "x", "v": 1}],
            [{"name": "x", "v": 2}, {"name": "x", "v": 3}],
            [{"name": "x", "v": 2}, {"name": "x", "v": 3}],
            id="a duplicate name is kept, to be reported",
        ),
        pytest.param({"a": {"b": 1}}, {"a": 2}, {"a": 2}, id="another kind of value replaces"),
    ],
)
def test_rule(base: object, over: object, expected: object) -> None:
    """Maps merge, lists of named elements merge by name, other lists replace, null deletes."""
    assert merged(base, over) == expected


@given(MAPS)
def test_an_empty_file_has_no_effect(value: dict[str, object]) -> None:
    """It has none as base or as override. The same file twice has no effect either."""
    alone = as_lists(to_plain(prune(make_node(value))))
    assert merged(value, {}) == merged({}, value) == merged(value, value) == alone


@given(MAPS, MAPS)
def test_the_later_file_wins(base: dict[str, object], over: dict[str, object]) -> None:
    """A second merge of the same file has no effect."""
    once = merge(make_node(base), make_node(over, OVER))
    assert merge(once, make_node(over, OVER)) == once


@given(MAPS, MAPS)
def test_leaves_keep_their_place(base: dict[str, object], over: dict[str, object]) -> None:
    """Every scalar of the result is in one of the files, at the same place."""
    leaves = {
        (where, node.data)
        for where, value in ((BASE, base), (OVER, over))
        for _, node in walk(make_node(value, where))
        if isinstance(node.data, str | int)
    }
    result = merge(make_node(base), make_node(over, OVER))
    assert {(node.where, node.data) for _, node in walk(result) if isinstance(node.data, str | int)} <= leaves


@given(MAPS)
def test_the_engine_agreeing_changes_no_place(value: dict[str, object]) -> None:
    """If the configuration equals the file, every value keeps its place in the file."""
    assert overlay(make_node(value), value, ENGINE) == make_node(value)


@given(MAPS, MAPS)
def test_the_engine_wins(value: dict[str, object], other: dict[str, object]) -> None:
    """The result has the engine's values."""
    assert as_lists(to_plain(overlay(make_node(value), other, ENGINE))) == other
