"""Work of the SDK for the registration of an object that the program does not use."""

from collections.abc import Iterator
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks

from tests.registrations.recorder import Echo
from tests.unit.stacks.engine import mocked_engine
from trainstack.components.objects import Object
from trainstack.stacks.lean_registrations import omit_unused_registration_data

MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "lab"}, "data": {"a": "b"}}


class Monitor(mocks.MockMonitor):
    """Pulumi's mock of the engine, which records the requests."""

    def __init__(self) -> None:
        super().__init__(Echo())
        self.requests: list[Any] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (the protocol's name)
        """Record the request."""
        self.requests.append(request)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK gives it no types


@pytest.fixture
def monitor(restored_sdk: None) -> Iterator[Monitor]:
    """Provide an engine."""
    with mocked_engine(Monitor()) as monitor:
        yield monitor


@pytest.mark.parametrize("omitted", [False, True])
def test_resources_are_registered_without_a_trace(monitor: Monitor, omitted: bool) -> None:
    """The SDK sends traces unless they are omitted: a new release may find them in another way."""
    if omitted:
        omit_unused_registration_data()

    pulumi.runtime.test(lambda: pulumi.Stash("stash", input="value"))()  # type: ignore[no-untyped-call]
    (request,) = (request for request in monitor.requests if request.name == "stash")
    assert bool(request.stackTrace.frames) is not omitted
    assert bool(request.sourcePosition.uri) is not omitted


def test_an_object_has_no_outputs_but_its_id_and_urn(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK makes an output of each field, and of each part of the URN; other resources keep their outputs."""
    outputs_made: list[pulumi.Output[Any]] = []
    track = pulumi.Output._track

    def keep(output: pulumi.Output[Any]) -> None:
        outputs_made.append(output)
        track(output)

    monkeypatch.setattr(pulumi.Output, "_track", keep)

    def declared() -> tuple[Object, int]:
        objects: list[Object] = []
        count_before = len(outputs_made)
        pulumi.runtime.test(lambda: objects.append(Object(MANIFEST)))()  # type: ignore[no-untyped-call]
        return objects[0], len(outputs_made) - count_before

    declared_object, outputs = declared()
    omit_unused_registration_data()
    bare, fewer = declared()
    assert [{*vars(resource)} & {"id", "urn", *MANIFEST} for resource in (declared_object, bare)] == [
        {"id", "urn", *MANIFEST},
        {"id", "urn"},
    ]
    assert fewer <= outputs / 2
    assert [request.object["data"]["a"] for request in monitor.requests if request.name == "lab/x"] == ["b", "b"]

    values: list[object] = []
    pulumi.runtime.test(lambda: pulumi.Stash("stash", input="value").output.apply(values.append))()  # type: ignore[no-untyped-call]
    assert values == ["value"]
