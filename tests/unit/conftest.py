"""Generated examples have no deadline, because machines differ; they are few, and the same in every run.

`pytest --hypothesis-profile fresh` draws ten times as many, and others in every run; `make slow-test` does that.
"""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("fresh", deadline=None, max_examples=100)
settings.load_profile("untimed")

NO_AUTHORITIES = Path(__file__).parent / "no-authorities"
"""A missing path, which OpenSSL accepts as a folder of certificates."""

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
    """Select `dev` as a user's shell may do (tests/unit/cli/test_selection.py has the other ways).

    Trust no authority: otherwise each HTTP client reads all authorities' certificates (20 ms); no test connects to
    another host.
    """
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv("TRAINSTACK_STACK", "dev")
        changes.setenv("SSL_CERT_DIR", str(NO_AUTHORITIES))
        changes.delenv("SSL_CERT_FILE", raising=False)
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
