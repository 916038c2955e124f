"""The variables of a user's shell, for tests in the checkout."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NO_AUTHORITIES = Path(__file__).parent / "no-authorities"
"""A missing path, which OpenSSL accepts as a folder of certificates."""


@contextmanager
def shell_variables() -> Iterator[None]:
    """Select `dev` as a user's shell may do (tests/unit/cli/test_selection.py has the other ways).

    Trust no authority: otherwise each HTTP client reads all authorities' certificates (20 ms); no test connects to
    another host.
    """
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv("TRAINSTACK_STACK", "dev")
        changes.setenv("SSL_CERT_DIR", str(NO_AUTHORITIES))
        changes.delenv("SSL_CERT_FILE", raising=False)
        yield
