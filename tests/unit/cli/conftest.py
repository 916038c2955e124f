"""A fixture for the tests of commands that write reports."""

import pytest

from trainstack.reports import charts


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the charts of reports empty: tests/unit/reports is about them."""
    monkeypatch.setattr(charts, "png", lambda _: b"")
    monkeypatch.setattr(charts, "svg", lambda *_: "")
