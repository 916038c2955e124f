"""Record the resources that a Pulumi program registers, with every option that the engine receives.

This module imports nothing of the project, so that it records the program of any commit: `recorder.py FOLDER STACK
IDENTITY UIDS` prints the registrations of a checkout's environment as JSON. IDENTITY is that of the engine's state, and
UIDS a JSON object of the cluster's namespaces, by name. The checkout's folder is first on PYTHONPATH, and KUBECONFIG
names the cluster.
"""

import asyncio
import hashlib
import json
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pulumi
import yaml
from google.protobuf import empty_pb2, json_format
from pulumi.runtime import mocks
from pulumi.runtime import resource as sdk
from pulumi.runtime.proto import source_pb2

PROJECT = "trainstack"
STACK_TYPE = "pulumi:pulumi:Stack"
READ_STATE = "pulumi:pulumi:readStackResourceOutputs"
_HOOKS = ("before_create", "after_create", "before_update", "after_update", "before_delete", "after_delete", "on_error")
_LISTS = ("ignoreChanges", "replaceOnChanges", "additionalSecretOutputs", "aliasURNs")
_SCALARS = ("version", "importId", "deletedWith", "pluginDownloadURL")


@dataclass(frozen=True, kw_only=True)
class Registration:
    """One resource as the engine receives it."""

    urn: str
    read: bool = False
    """The resource is only read, by its id; the engine never changes or deletes it."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """The set options, by their names in the engine's protocol. Their URNs have the form of `urn`."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """The registered outputs of a component."""

    @property
    def type(self) -> str:
        """The type token."""
        return self.urn.split("::")[2].rpartition("$")[2]

    @property
    def name(self) -> str:
        """The Pulumi name."""
        return self.urn.split("::", 3)[3]

    @property
    def parent(self) -> str:
        """The parent's Pulumi name; empty if the stack is the parent."""
        return str(self.options.get("parent", "")).split("::", 3)[-1]

    @property
    def dependencies(self) -> list[str]:
        """The Pulumi names of the resources that this one depends on, sorted."""
        return sorted(urn.split("::", 3)[3] for urn in self.options.get("dependencies", ()))

    @property
    def hooks(self) -> Mapping[str, Sequence[str]]:
        """The names of the resource hooks, by moment."""
        hooks: Mapping[str, Sequence[str]] = self.options.get("hooks", {})
        return hooks

    def as_json(self) -> dict[str, Any]:
        """Return the registration as JSON values."""
        found = {"urn": self.urn, "read": self.read, "inputs": self.inputs, "options": self.options}
        return {**found, "outputs": self.outputs}


class RecordingMonitor(mocks.MockMonitor):
    """Pulumi's mock of the engine, with the engine's URNs, which keeps each request."""

    def __init__(self, answers: mocks.Mocks, stack: str) -> None:
        """`answers` gives ids and outputs; `stack` is the stack's name."""
        super().__init__(answers)
        self.stack = stack
        self._recorded: dict[str, Registration] = {}

    @property
    def recorded(self) -> list[Registration]:
        """The registrations in the order of their arrival, which varies for resources that are independent."""
        return [*self._recorded.values()]

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """Return the URN in the engine's format."""
        return make_urn(self.stack, PROJECT, parent, type_, name)

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (the protocol's name)
        """Keep the request."""
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK gives it no types
        if request.type != STACK_TYPE:
            assert response.urn not in self._recorded, f"{response.urn} is registered twice"
            self._recorded[response.urn] = Registration(
                urn=response.urn, inputs=_body(request.object), options=_options(request)
            )
        return response

    def ReadResource(self, request: Any) -> Any:  # noqa: N802
        """Keep the request."""
        response = super().ReadResource(request)  # type: ignore[no-untyped-call]
        options = {**_common(request), "id": request.id}
        self._recorded[response.urn] = Registration(
            urn=response.urn, read=True, inputs=_body(request.properties), options=options
        )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802
        """Add the outputs to the component's registration."""
        if (known := self._recorded.get(request.urn)) is not None:
            self._recorded[request.urn] = Registration(
                urn=known.urn, inputs=known.inputs, options=known.options, outputs=_body(request.outputs)
            )
        return empty_pb2.Empty()


class Echo(mocks.Mocks):
    """Each resource gets its inputs as outputs, and an id made of its name. A namespace that is read has a UID."""

    def __init__(
        self, uids: Mapping[str, str] | None = None, calls: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """`uids`: of the namespaces that are read, by name. `calls`: the responses to invokes, by token."""
        self._uids, self._calls = uids or {}, calls or {}

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        """A Stash hands out its input; a StackReference has no outputs."""
        name = args.resource_id or ""
        if name in self._uids:
            return name, {**args.inputs, "metadata": {"name": name, "uid": self._uids[name]}}
        return f"{args.name}-id", {**args.inputs, "output": args.inputs.get("input")}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        """Return a canned response. A call without one fails."""
        return dict(self._calls[args.token]), []


@contextmanager
def engine(monitor: RecordingMonitor, *, preview: bool = False) -> Iterator[None]:
    """Have Pulumi's SDK talk to the monitor, in an event loop of its own. Hooks are known by name and never called."""
    loop = asyncio.new_event_loop()
    # Outputs of a program that failed are collected unread. asyncio would report each in the middle of another test,
    # and print its traceback with the parser that this test may be using, which breaks CPython 3.11.
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)

    def registered(_: object) -> asyncio.Future[None]:
        done = loop.create_future()
        done.set_result(None)
        return done

    hooks = pulumi.resource_hooks
    with (
        patch.object(hooks, "register_resource_hook", registered),
        patch.object(hooks, "register_error_hook", registered),
        # The source positions of resources are unused, and finding them would double the duration.
        patch.object(sdk, "_get_stack_trace", source_pb2.StackTrace),
    ):
        mocks.set_mocks(monitor.mocks, project=PROJECT, stack=monitor.stack, preview=preview, monitor=monitor)
        # The root resource belongs to the process and keeps the transformations of the previous program.
        root = pulumi.runtime.get_root_resource()
        assert root is not None
        root._transformations = []
        try:
            yield
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def record(
    program: Callable[[], Any], stack: str, answers: mocks.Mocks | None = None, *, preview: bool = False
) -> list[Registration]:
    """Run a program to its end.

    Args:
        program: declares resources.
        stack: the name of the stack.
        answers: gives ids and outputs; by default `Echo`.
        preview: whether the program runs for a preview.

    Returns the registrations, sorted by URN.

    """
    monitor = RecordingMonitor(answers or Echo(), stack)
    with engine(monitor, preview=preview):
        pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]  # the SDK gives it no types
    return sorted(monitor.recorded, key=lambda registration: registration.urn)


def make_urn(stack: str, project: str, parent: str, type_: str, name: str) -> str:
    """The URN as the engine builds it: the types of all parents but the stack, then the type.

    Args:
        stack: the name of the stack.
        project: the name of the project.
        parent: the URN of the parent; empty if there is none.
        type_: the type token.
        name: the Pulumi name.

    """
    parents = parent.split("::")[2] if parent else ""
    qualified = type_ if parents in ("", STACK_TYPE) else f"{parents}${type_}"
    return f"urn:pulumi:{stack}::{project}::{qualified}::{name}"


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _body(message: Any) -> dict[str, Any]:
    body = json_format.MessageToDict(message)
    assert isinstance(body, dict)
    return body


def _common(request: Any) -> dict[str, Any]:
    options: dict[str, Any] = {key: getattr(request, key) for key in ("parent", "provider", "version")}
    if options["parent"].split("::")[2:3] == [STACK_TYPE]:
        options["parent"] = ""
    # The engine chooses the provider's id.
    options["provider"] = options["provider"].rpartition("::")[0]
    options["dependencies"] = sorted(request.dependencies)
    return {key: value for key, value in options.items() if value}


def _options(request: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"custom": request.custom, **{key: getattr(request, key) for key in _SCALARS}}
    options |= {key: sorted(getattr(request, key)) for key in _LISTS}
    options |= {"protect": request.protect, "retainOnDelete": request.retainOnDelete}
    options["deleteBeforeReplace"] = request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None
    options["customTimeouts"] = _body(request.customTimeouts)
    options["aliases"] = [_body(alias) for alias in request.aliases]
    options["providers"] = {name: urn.rpartition("::")[0] for name, urn in sorted(request.providers.items())}
    options["propertyDependencies"] = {
        key: sorted(depends.urns) for key, depends in sorted(request.propertyDependencies.items()) if depends.urns
    }
    options["hooks"] = {moment: [*names] for moment in _HOOKS if (names := getattr(request.hooks, moment))}
    return {**_common(request), **{key: value for key, value in options.items() if value not in (None, "", [], {})}}


def _main(folder: Path, stack: str, state: str, uids: str) -> None:
    """Print the registrations of a checkout for an environment whose state has only its identity."""
    config = yaml.safe_load((folder / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))["config"]
    # Pins need a registry, which this machine may not reach.
    config.get("trainstack:environment", {}).pop("pinned", None)
    pulumi.runtime.set_all_config({key: json.dumps(value) for key, value in config.items()})
    stash = f"urn:pulumi:{stack}::{PROJECT}::pulumi:index:Stash::state-identity"
    calls = {READ_STATE: {"outputs": {stash: {"outputs": {"input": state, "output": state}}}}}
    program = folder / "__main__.py"
    # A preview: an `up` would wait for the operators' webhooks.
    registrations = record(
        lambda: runpy.run_path(str(program), run_name="__main__"),
        stack,
        Echo(json.loads(uids), calls),
        preview=True,
    )
    json.dump([registration.as_json() for registration in registrations], sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), *sys.argv[2:5])
