"""Resources that depend on others that a change leaves out, with a fake of the engine."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks, settings

from tests.registrations.recorder import Echo
from trainstack.components.objects import declare_objects
from trainstack.runs.recorded_launches import StateResource
from trainstack.stacks.excluded_resources import refuse_dependents


class Monitor(mocks.MockMonitor):
    """Pulumi's mock of the engine, which leaves some resources out, and records the others' requests."""

    def __init__(self, left_out: tuple[str, ...]) -> None:
        super().__init__(Echo())
        self.left_out = left_out
        self.requests: dict[str, Any] = {}

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (the protocol's name)
        """Answer without an id where the engine creates nothing."""
        self.requests[request.name] = request
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK gives it no types
        if request.name in self.left_out:
            response.id = ""
        return response

    def dependencies(self, name: str) -> list[str]:
        """Return the names of the resources that the engine stores as dependencies."""
        return sorted(urn.rpartition("::")[2] for urn in self.requests[name].dependencies)

    def hooks(self, name: str) -> list[str]:
        """Return the hooks before a creation or an edit."""
        bound = self.requests[name].hooks
        assert list(bound.before_create) == list(bound.before_update)
        return list(bound.before_create)


HOOKS: list[pulumi.ResourceHook] = []


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide an event loop, and no engine that could register hooks."""
    HOOKS.clear()

    class Hook:
        def __init__(self, name: str, callback: Any) -> None:
            self.name, self.callback = name, callback
            HOOKS.append(self)  # type: ignore[arg-type]

    monkeypatch.setattr(pulumi, "ResourceHook", Hook)
    created = asyncio.new_event_loop()
    asyncio.set_event_loop(created)
    yield
    asyncio.set_event_loop(None)
    created.close()


def make_config_map(name: str) -> dict[str, Any]:
    """Return a manifest."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "lab"}, "data": {}}


def run(*left_out: str, stored: tuple[str, ...] = (), preview: bool = False) -> Monitor:
    """Register a chain of two objects, another object, and a component that depends on all; return the requests."""
    state = [StateResource("kubernetes:core/v1:ConfigMap", "", name, {}) for name in stored]
    monitor = Monitor(left_out)
    mocks.set_mocks(monitor.mocks, preview=preview, monitor=monitor)
    settings.SETTINGS.monitor = monitor

    def program() -> None:
        refuse_dependents(state)
        parent = pulumi.ComponentResource("t:t:Runs", "runs")
        (first,) = declare_objects([make_config_map("first")], parent)
        (second,) = declare_objects([make_config_map("second")], parent, [first])
        (third,) = declare_objects([make_config_map("third")], parent)
        opts = pulumi.ResourceOptions(depends_on=[first, second, third])
        pulumi.ComponentResource("t:t:Guard", "guard", {}, opts)

    pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]
    return monitor


@pytest.mark.usefixtures("loop")
def test_a_whole_change_keeps_all_dependencies() -> None:
    """Nothing is refused."""
    monitor = run()
    assert monitor.dependencies("lab/second") == ["lab/first"]
    assert monitor.dependencies("guard") == ["lab/first", "lab/second", "lab/third"]
    assert monitor.hooks("lab/second") == monitor.hooks("guard") == []


@pytest.mark.usefixtures("loop")
def test_what_depends_on_what_is_left_out_is_refused() -> None:
    """The engine would store a reference to nothing. A component has nothing that could be wrong without it."""
    monitor = run("lab/first")
    assert monitor.dependencies("lab/second") == ["lab/first"]
    assert monitor.dependencies("guard") == ["lab/second", "lab/third"]
    assert (monitor.hooks("lab/second"), monitor.hooks("lab/third"), monitor.hooks("guard")) == (["left-out"], [], [])
    (hook,) = HOOKS
    args = pulumi.ResourceHookArgs(urn="", id="", name="lab/second", type="kubernetes:core/v1:ConfigMap")
    with pytest.raises(pulumi.RunError, match="lab/second depends on ConfigMap lab/first, which `--exclude`"):
        hook.callback(args)


@pytest.mark.usefixtures("loop")
def test_a_stored_resource_loses_the_dependency() -> None:
    """The engine stores it again if it is not edited; an edit is refused."""
    monitor = run("lab/first", stored=("lab/second",))
    assert (monitor.dependencies("lab/second"), monitor.hooks("lab/second")) == ([], ["left-out"])


@pytest.mark.usefixtures("loop")
def test_a_preview_is_not_changed() -> None:
    """In a preview no created resource has an id, whether it is left out or not."""
    monitor = run("lab/first", "lab/second", "lab/third", preview=True)
    assert monitor.dependencies("lab/second") == ["lab/first"]
    assert monitor.hooks("lab/second") == []
