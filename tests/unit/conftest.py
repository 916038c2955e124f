"""Generated examples have no deadline, because machines differ; they are few, and the same in every run.

`pytest --hypothesis-profile fresh` draws ten times as many, and others in every run; `make slow-test` does that.
"""

import gc
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.shell import shell_variables

settings.register_profile("untimed", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("fresh", deadline=None, max_examples=100)
settings.load_profile("untimed")

# Garbage is collected rarely: objects of the collection stay, and a test creates few.
gc.disable()


def pytest_collection_finish() -> None:
    """Exclude the objects of the collection from the garbage collector: they stay, and their traversal is slow."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def variables() -> Iterator[None]:
    """Set the variables of a user's shell."""
    with shell_variables():
        yield


@pytest.fixture
def unread_outputs() -> Iterator[None]:
    """Collect the outputs that a failed program leaves unread, so that their warnings do not appear in a later test.

    Only objects of the test are traversed: earlier ones are frozen.
    """
    gc.freeze()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.collect()
