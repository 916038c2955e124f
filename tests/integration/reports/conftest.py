"""Fixtures of the tests of reports."""

from collections.abc import Iterator

import pytest

from tests.integration.reports.chromium import Browser, browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Provide one browser for all pages."""
    with browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started
