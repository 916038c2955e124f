"""The one merge rule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstack.settings.errors import Place
from trainstack.settings.loading.merge import merge, overlay, plain, prune, walk
from trainstack.settings.loading.source import Node

BASE, OVER, ENGINE = Place("base.yaml", 1), Place("over.yaml", 1), Place("engine")

SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"])
KEYS = st.sampled_from(["a", "b", "c"])


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(KEYS, inner, max_size=2)
    things = st.lists(
        st.tuples(st.sampled_from(["n1", "n2", "n3"]), named), max_size=3, unique_by=lambda thing: thing[0]
    )
    return st.one_of(
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(inner, max_size=2),
        things.map(lambda pairs: [{**entries, "name": name} for name, entries in pairs]),
    )


VALUES = st.recursive(SCALARS, _extend, max_leaves=12)
MAPS = st.dictionaries(KEYS, VALUES, max_size=3)


def make_node(value: object, where: Place = BASE) -> Node:
    """A value all of which was set at one place."""
    if isinstance(value, dict):
        return Node({key: make_node(each, where) for key, each in value.items()}, where)
    if isinstance(value, list | tuple):
        return Node(tuple(make_node(each, where) for each in value), where)
    assert value is None or isinstance(value, bool | int | float | str)
    return Node(value, where, str(value))


def merged(base: object, over: object) -> object:
    """The values after merge and prune, with lists as lists."""
    return as_lists(plain(prune(merge(make_node(base), make_node(over, OVER)))))


def as_lists(value: object) -> object:
    """The value with lists for tuples."""
    if isinstance(value, dict):
        return {key: as_lists(each) for key, each in value.items()}
    return [as_lists(each) for each in value] if isinstance(value, tuple) else value


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
            id="named things merge in the base's order, new ones follow",
        ),
        pytest.param([{"name": "x"}], [], [], id="an empty list empties"),
        pytest.param([{"name": "x"}], [{"volume": "v"}], [{"volume": "v"}], id="things without a name replace"),
        pytest.param(
            [{"name": "x", "namespace": "a"}],
            [{"name": "x", "namespace": "b"}],
            [{"name": "x", "namespace": "a"}, {"name": "x", "namespace": "b"}],
            id="one name in two namespaces is two things",
        ),
        pytest.param(
            [{"name": "x", "namespace": "a"}],
            [{"name": "x", "v": 1}],
            [{"name": "x", "namespace": "a", "v": 1}],
            id="the namespace may be left to the base",
        ),
        pytest.param(
            [{"name": "x", "v": 1}],
            [{"name": "x", "v": 2}, {"name": "x", "v": 3}],
            [{"name": "x", "v": 2}, {"name": "x", "v": 3}],
            id="a name given twice stays twice, to be reported",
        ),
        pytest.param({"a": {"b": 1}}, {"a": 2}, {"a": 2}, id="another kind of value replaces"),
    ],
)
def test_rule(base: object, over: object, expected: object) -> None:
    """Maps merge, lists of named things merge by name, other lists replace, null deletes."""
    assert merged(base, over) == expected


@given(MAPS)
def test_nothing_changes_nothing(value: dict[str, object]) -> None:
    """An empty file, below or above, is as none; and so is the same file twice."""
    alone = as_lists(plain(prune(make_node(value))))
    assert merged(value, {}) == merged({}, value) == merged(value, value) == alone


@given(MAPS, MAPS)
def test_the_later_file_wins(base: dict[str, object], over: dict[str, object]) -> None:
    """Laying the same file on top a second time changes nothing."""
    once = merge(make_node(base), make_node(over, OVER))
    assert merge(once, make_node(over, OVER)) == once


@given(MAPS, MAPS)
def test_leaves_keep_their_place(base: dict[str, object], over: dict[str, object]) -> None:
    """Every single value of the result is one of a file, at the place where that file has it."""
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
    """Configuration that is equal to the file leaves every value where the file set it."""
    assert overlay(make_node(value), value, ENGINE) == make_node(value)


@given(MAPS, MAPS)
def test_the_engine_wins(value: dict[str, object], other: dict[str, object]) -> None:
    """What the engine says is what holds."""
    assert as_lists(plain(overlay(make_node(value), other, ENGINE))) == other
