"""Fixtures of the tests that run programs of this machine: git, tar, a shell, a browser."""

from collections.abc import Iterator

import pytest

from tests.shell import shell_variables


@pytest.fixture(autouse=True, scope="module")
def variables() -> Iterator[None]:
    """Set the variables of a user's shell for a module: the next one of the process may be about a cluster."""
    with shell_variables():
        yield
