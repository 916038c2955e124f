"""The dependents of resources that fail."""

from collections.abc import Iterator
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks, stack
from pulumi.runtime.proto import resource_pb2

from tests.registrations.recorder import Echo
from tests.unit.stacks.engine import mocked_engine
from trainstack.stacks.failed_resources import register_dependents_of_failed_resources


class Monitor(mocks.MockMonitor):
    """Pulumi's mock of the engine, which continues after the resource `failed`."""

    def __init__(self) -> None:
        super().__init__(Echo())
        self.registered: list[str] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (the protocol's name)
        """Answer as the engine with `--continue-on-error`."""
        self.registered.append(request.name)
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK gives it no types
        if request.name != "failed":
            return response
        return resource_pb2.RegisterResourceResponse(urn=response.urn, result=resource_pb2.Result.FAIL)


@pytest.fixture
def monitor(restored_sdk: None) -> Iterator[Monitor]:
    """Provide an engine."""
    with mocked_engine(Monitor()) as monitor:
        yield monitor


def declare() -> None:
    """Declare a resource that fails, one that depends on it, and another one that depends on this one."""
    failed = pulumi.Stash("failed", input="a")
    dependent = pulumi.Stash("dependent", input="b", opts=pulumi.ResourceOptions(depends_on=[failed]))
    pulumi.Stash("indirect", input="c", opts=pulumi.ResourceOptions(depends_on=[dependent]))


def test_dependents_of_a_failed_resource_are_registered(monitor: Monitor) -> None:
    register_dependents_of_failed_resources()
    pulumi.runtime.test(declare)()  # type: ignore[no-untyped-call]
    assert [*monitor.registered[-3:]] == ["failed", "dependent", "indirect"]


def test_the_sdk_does_not_register_them(monitor: Monitor) -> None:
    """A new release may register them: then remove the replacement."""
    with pytest.raises(stack.ResourceRegistrationFailed):
        pulumi.runtime.test(declare)()  # type: ignore[no-untyped-call]
    assert "dependent" not in monitor.registered
