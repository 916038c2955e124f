"""The engine's side of the protocol that programs speak: registrations, functions, hooks, logs."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import (
    callback_pb2,
    callback_pb2_grpc,
    engine_pb2,
    engine_pb2_grpc,
    provider_pb2,
    resource_pb2,
    resource_pb2_grpc,
)

from tests.registrations.recorder import make_urn
from tests.stateful.engine import Engine
from tests.stateful.goal import Goal
from tests.stateful.json_values import Body, floats_to_integers
from tests.stateful.provider import RequestFailedError
from tests.stateful.state import Resource

SETTLING_SECONDS = 0.003
"""For so long no registration comes before the next one is taken: the order of independent ones is then by name."""
_FEATURES = {
    "aliasSpecs",
    "deletedWith",
    "replaceWith",
    "transforms",
    "invokeTransforms",
    "resourceHooks",
    "errorHooks",
}
"""Not secrets, output values and references to resources: properties arrive as plain values."""


@dataclass
class Hooks:
    """The hooks of a program, which are called back."""

    callbacks: dict[str, callback_pb2.Callback] = field(default_factory=dict)
    channels: dict[str, grpc.Channel] = field(default_factory=dict)

    def run(self, name: str, about: Mapping[str, Any]) -> str:
        """Run a hook; its error, or nothing."""
        if name not in self.callbacks:
            return f"the hook {name!r} was not registered"
        callback = self.callbacks[name]
        channel = self.channels.setdefault(callback.target, grpc.insecure_channel(callback.target))
        fields: Any = {key: as_struct(value) if isinstance(value, dict) else value for key, value in about.items()}
        failed = "failed_operation" in about
        message = resource_pb2.ErrorHookRequest(**fields) if failed else resource_pb2.ResourceHookRequest(**fields)
        request = callback_pb2.CallbackInvokeRequest(token=callback.token, request=message.SerializeToString())
        answer = callback_pb2_grpc.CallbacksStub(channel).Invoke(request)
        response = resource_pb2.ErrorHookResponse if failed else resource_pb2.ResourceHookResponse
        return str(response.FromString(answer.response).error)


class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Serves one program."""

    def __init__(self, engine: Engine, hooks: Hooks, project: str, stack: str) -> None:
        self.engine, self.hooks, self.project, self.stack = engine, hooks, project, stack
        self.failure = ""
        self.finished = False
        self._waiting: list[tuple[str, Callable[[], Any], Future[Any]]] = []
        self._arrived = threading.Condition()
        self._stopped = False
        self._worker = threading.Thread(target=self._work, daemon=True)
        self._worker.start()

    def stop(self) -> None:
        """Take no more registrations."""
        with self._arrived:
            self._stopped = True
            self._arrived.notify_all()

    # The protocol. Names are its own.

    def SupportsFeature(self, request: Any, context: Any) -> Any:  # noqa: N802
        return resource_pb2.SupportsFeatureResponse(hasSupport=request.id in _FEATURES)

    def RegisterResourceHook(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.hooks.callbacks[request.name] = request.callback
        if request.on_dry_run:
            self.engine.dry_hooks.add(request.name)
        return empty_pb2.Empty()

    def RegisterErrorHook(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.hooks.callbacks[request.name] = request.callback
        return empty_pb2.Empty()

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        goal = self._goal(request)
        made: Resource = self._in_turn(goal.urn, lambda: self.engine.register(goal), context)
        return resource_pb2.RegisterResourceResponse(urn=made.urn, id=made.id, object=as_struct(made.outputs))

    def ReadResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        goal = Goal(
            self._urn(request),
            request.type,
            True,
            as_body(request.properties),
            request.parent,
            tuple(request.dependencies),
            request.provider,
        )
        made: Resource = self._in_turn(goal.urn, lambda: self.engine.read(goal, request.id), context)
        return resource_pb2.ReadResourceResponse(urn=made.urn, properties=as_struct(made.outputs))

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = self._in_turn(request.tok, lambda: self.engine.invoke(request.tok, as_body(request.args)), context)
        fields: Any = {"return": as_struct(answer)}
        return provider_pb2.InvokeResponse(**fields)

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._in_turn("~", self._finish, context)
        return empty_pb2.Empty()

    def _finish(self) -> None:
        self.engine.finish()
        self.finished = True

    # One at a time

    def _in_turn(self, name: str, work: Callable[[], Any], context: Any) -> Any:
        done: Future[Any] = Future()
        with self._arrived:
            self._waiting.append((name, work, done))
            self._arrived.notify_all()
        try:
            return done.result()
        except RequestFailedError as error:
            # The engine closes its monitor: the program ends, and nothing more is done.
            self.failure = self.failure or str(error)
            context.abort(grpc.StatusCode.UNAVAILABLE, "the engine has ended the operation")

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            _, work, done = taken
            try:
                if self.failure:
                    raise RequestFailedError(self.failure)  # noqa: TRY301  as if the next one had failed too
                done.set_result(work())
            except RequestFailedError as error:
                self._fail(str(error), done)
            except Exception as error:  # noqa: BLE001  a fault of the stand-in, which the test has to see
                self._fail(f"stand-in: {error!r}", done)

    def _fail(self, why: str, done: Future[Any]) -> None:
        self.failure = self.failure or why
        done.set_exception(RequestFailedError(self.failure))

    def _next(self) -> tuple[str, Callable[[], Any], Future[Any]] | None:
        with self._arrived:
            while not self._waiting and not self._stopped:
                self._arrived.wait()
            count = -1
            while len(self._waiting) != count:
                count = len(self._waiting)
                self._arrived.wait(SETTLING_SECONDS)
            if not self._waiting:
                return None
            chosen = min(self._waiting, key=lambda each: each[0])
            self._waiting.remove(chosen)
            return chosen

    def _goal(self, request: Any) -> Goal:
        hooks = {
            name: tuple(getattr(request.hooks, name))
            for name in ("before_create", "after_create", "before_update", "after_update", "before_delete", "on_error")
        }
        return Goal(
            urn=self._urn(request),
            type=request.type,
            custom=request.custom,
            inputs=as_body(request.object),
            parent=request.parent,
            dependencies=_dependencies(request),
            provider=request.provider,
            protect=bool(request.protect),
            retain=bool(request.retainOnDelete),
            delete_before_replace=request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None,
            ignore=tuple(request.ignoreChanges),
            replace_on=tuple(request.replaceOnChanges),
            import_id=request.importId,
            **hooks,
        )

    def _urn(self, request: Any) -> str:
        return make_urn(self.stack, self.project, request.parent, request.type, request.name)


@dataclass
class Log(engine_pb2_grpc.EngineServicer):
    """Takes what a program logs."""

    lines: list[str] = field(default_factory=list)

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.severity != engine_pb2.DEBUG:
            self.lines.append(request.message)
        return empty_pb2.Empty()

    def GetRootResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        return engine_pb2.GetRootResourceResponse(urn="")

    def SetRootResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        return engine_pb2.SetRootResourceResponse()


@contextmanager
def serve(monitor: Monitor, log: Log) -> Iterator[str]:
    """Serve both at an address on loopback."""
    server = grpc.server(ThreadPoolExecutor(max_workers=64))
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, server)
    engine_pb2_grpc.add_EngineServicer_to_server(log, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        monitor.stop()
        server.stop(grace=None).wait()


def _dependencies(request: Any) -> tuple[str, ...]:
    of_properties = (urn for each in request.propertyDependencies.values() for urn in each.urns)
    return tuple(dict.fromkeys([*request.dependencies, *of_properties]))


def as_struct(body: Mapping[str, Any]) -> struct_pb2.Struct:
    """A message of the protocol."""
    message: struct_pb2.Struct = json_format.ParseDict(dict(body), struct_pb2.Struct())
    return message


def as_body(message: struct_pb2.Struct) -> Body:
    """The content of such a message."""
    body: Body = floats_to_integers(json_format.MessageToDict(message))
    return body
