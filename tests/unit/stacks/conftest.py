"""The SDK's functions that the program replaces."""

import pytest
from pulumi.runtime import resource, rpc

_REPLACED = (
    (resource, "_get_stack_trace"),
    (resource, "create_urn"),
    (resource, "resource_output"),
    (rpc, "transfer_properties"),
    (rpc, "resolve_outputs"),
)


@pytest.fixture
def restored_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the SDK after the test; other tests need its functions."""
    for module, name in _REPLACED:
        monkeypatch.setattr(module, name, getattr(module, name))
