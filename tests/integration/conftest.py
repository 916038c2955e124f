"""Fixtures of the tests that run programs of this machine: git, tar, a shell, a browser."""

from collections.abc import Iterator

import pytest

from tests.shell import shell_variables


@pytest.fixture(autouse=True, scope="module")
def variables() -> Iterator[None]:
    """Set the variables of a user's shell for one module: cluster tests in the same process must not see them."""
    with shell_variables():
        yield
