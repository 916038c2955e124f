"""Label selectors, as the API server reads them."""

from urllib.parse import quote

import pytest

from trainstack.live.selectors import selects

LABELS = {"a.b/c": "1", "d": "x-y", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("a.b/c=1", True),
        ("a.b/c=2", False),
        ("missing=1", False),
        ("empty=", True),
        ("d in (x-y,z)", True),
        ("d in (z, x-y)", True),
        ("d in (x)", False),
        ("missing in (x,)", False),
        ("d", True),
        ("missing", False),
        ("!missing", True),
        ("!d", False),
        ("a.b/c=1,d in (x-y,z),!missing", True),
        ("a.b/c=1,d in (w,z),!missing", False),
        ("d notin (x-y)", True),
    ],
)
def test_an_item_is_selected_by_its_labels(selector: str, expected: bool) -> None:
    """Forms that no list has are left to the server."""
    path = f"/api/v1/pods?labelSelector={quote(selector)}&limit=500"
    assert selects(path, {"metadata": {"labels": LABELS}}) == expected


def test_an_item_without_labels() -> None:
    assert selects("/api/v1/pods?limit=500", {"metadata": {}})
    assert not selects("/api/v1/pods?labelSelector=a", {"metadata": {}})
