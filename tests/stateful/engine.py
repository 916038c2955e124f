"""A stand-in for Pulumi's engine that executes a real program against an API server, step by step.

The program is served over the engine's own protocol, so that it is run by the project's language host, with its hooks
and transformations. Steps are those of the engine's step generator; they are executed one at a time, where the engine
may execute independent ones at once.

Source: github.com/pulumi/pulumi, pkg/resource/deploy: step_generator.go, step.go, deployment_executor.go, builtins.go
"""

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.stateful.goal import EVERYTHING, Goal, Selection
from tests.stateful.json_values import (
    Body,
    contains_unknown,
    copy,
    differences,
    is_below,
    parse,
    prune,
    set_value,
    value_at,
    without_nulls,
)
from tests.stateful.network import Network
from tests.stateful.provider import Cluster, Provider, RequestFailedError, connect
from tests.stateful.state import Resource, State

STASH, REFERENCE, READ_STATE = (
    "pulumi:index:Stash",
    "pulumi:pulumi:StackReference",
    "pulumi:pulumi:readStackResourceOutputs",
)
PROVIDER = "pulumi:providers:kubernetes"
ROOT = "pulumi:pulumi:Stack"


@dataclass(frozen=True)
class Engine:
    """One operation of the engine on a stack."""

    state: State
    mode: str
    """`up`, `preview` or `destroy`."""
    kubeconfig: Callable[[], str]
    """The kubeconfig that a provider finds when it is configured."""
    on_moment: Callable[[str, str], str]
    """Called before and after whatever could be interrupted, with what it is and of which resource. Returns what the
    network does to the request; may raise RequestFailedError, and may not return."""
    network: Network
    run_hook: Callable[[str, Mapping[str, Any]], str]
    """Runs a hook of the program; its error, or nothing."""
    stack_outputs: Callable[[str], Body]
    """The outputs of another stack."""
    collect_garbage: Callable[[], None]
    """Has the cluster's garbage collector act."""
    selection: Selection = EVERYTHING
    providers: dict[str, Provider] = field(default_factory=dict)
    clusters: dict[str | None, Cluster] = field(default_factory=dict)
    registered: dict[str, Resource] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    dry_hooks: set[str] = field(default_factory=set)
    """Hooks that run in previews too."""
    late_errors: list[str] = field(default_factory=list)
    """Of hooks that come after an operation, which then has happened nevertheless."""
    declared: list[str] = field(default_factory=list)
    """The resources that the program registered."""
    skipped: set[str] = field(default_factory=set)
    """Those of them that the options leave out, and that are not in the state."""

    @property
    def is_preview(self) -> bool:
        """Return whether it is a preview."""
        return self.mode == "preview"

    # Registration

    def register(self, goal: Goal) -> Resource:
        """Create, update or replace a resource as the program declares it. Raises RequestFailedError."""
        old = self.state.find(goal.urn)
        if goal.type not in (PROVIDER, ROOT) and not self.selection.includes(goal.urn):
            return self._left_out(goal, old)
        if self.selection.target and (skipped := self.skipped & goal.resource().needs):
            raise RequestFailedError(f"{goal.urn} depends on {min(skipped)}, which was not specified in --target")
        if not goal.custom:
            return self._same_or_new(goal)
        self.declared.append(goal.urn)
        if goal.type == PROVIDER:
            return self._provider(goal)
        if self.mode == "destroy":
            # Nothing is made in order to be destroyed.
            found = old or goal.resource()
            if old is not None:
                self.registered[goal.urn] = old
            return found
        made = self._builtin(goal, old) if goal.type in (STASH, REFERENCE) else self._kubernetes(goal, old)
        self.registered[goal.urn] = made
        return made

    def read(self, goal: Goal, name: str) -> Resource:
        """Read an object that does not belong to the stack."""
        live = self._of(goal.provider).read(goal.type, name)
        if live is None:
            raise RequestFailedError(f"{goal.type} {name} does not exist")
        made = goal.resource(id=name, outputs={**live, "__inputs": {}}, external=True)
        self._keep(made, self.state.find(goal.urn))
        self.registered[goal.urn] = made
        return made

    def invoke(self, token: str, args: Body) -> Body:
        """Answer a function of the built-in provider."""
        if token != READ_STATE:
            raise RequestFailedError(f"unknown function {token}")
        kept = [resource for resource in self.state.resources if not resource.delete]
        return {
            **args,
            "outputs": {resource.urn: {"type": resource.type, "outputs": resource.outputs} for resource in kept},
        }

    def _left_out(self, goal: Goal, old: Resource | None) -> Resource:
        """Return what the program receives of a resource that the options leave out."""
        if old is None:
            self.skipped.add(goal.urn)
            old = goal.resource(outputs=copy(goal.inputs))
        else:
            self._keep(old, old)
        self._leave(old)
        return old

    def _leave(self, resource: Resource) -> None:
        """Leave a resource as it is, and what it needs, which may not be declared any more."""
        self.registered[resource.urn] = resource
        for urn in resource.needs - self.registered.keys():
            if needed := self.state.find(urn):
                self._leave(needed)

    def _same_or_new(self, goal: Goal) -> Resource:
        old = self.state.find(goal.urn)
        made = goal.resource(outputs=old.outputs if old else {})
        self._keep(made, old)
        self.registered[goal.urn] = made
        return made

    def _provider(self, goal: Goal) -> Resource:
        old = self.state.find(goal.urn)
        made = goal.resource(id=old.id if old else str(uuid.uuid4()), outputs=copy(goal.inputs))
        self.on_moment("configure", goal.name)
        kubeconfig, context = goal.inputs.get("kubeconfig"), goal.inputs.get("context")
        cluster = connect(kubeconfig or self.kubeconfig(), context)
        self.providers[f"{goal.urn}::{made.id}"] = Provider(
            cluster, goal.inputs.get("enableServerSideApply") != "false", self.collect_garbage, self.network
        )
        self._keep(made, old)
        self.registered[goal.urn] = made
        return made

    def _builtin(self, goal: Goal, old: Resource | None) -> Resource:
        inputs = copy(goal.inputs)
        if goal.type == REFERENCE:
            outputs = {**inputs, "outputs": self.stack_outputs(inputs["name"]), "secretOutputNames": []}
            made = goal.resource(id=old.id if old else str(uuid.uuid4()), outputs=outputs)
            self._keep(made, old)
            return made
        if old is not None:
            for path in goal.ignore:
                set_value(inputs, parse(path), value_at(old.inputs, parse(path)))
        replaced = old is not None and [
            path
            for path in differences(old.inputs, inputs)
            if is_below(path, [parse(parent) for parent in goal.replace_on])
        ]
        kept = old is not None and not replaced
        outputs = {"input": inputs["input"], "output": old.outputs["output"] if old and kept else inputs["input"]}
        made = goal.resource(id=old.id if old and kept else str(uuid.uuid4()), inputs=inputs, outputs=outputs)
        if not kept:
            self._step("create", goal, lambda: None)
        self._keep(made, old)
        return made

    # Kubernetes objects

    def _kubernetes(self, goal: Goal, old: Resource | None) -> Resource:
        provider = self._of(goal.provider)
        known = old.import_id or old.id if old else ""
        if goal.import_id and (old is None or old.external or known != goal.import_id):
            old = self._import(goal, old, provider)
            goal = _forget_import(goal)
        inputs = without_nulls(goal.inputs)
        if old is not None:
            for path in goal.ignore:
                if (before := value_at(old.inputs, parse(path))) is not None:
                    set_value(inputs, parse(path), before)
        inputs = provider.check(inputs)
        if old is None:
            return self._create(goal, inputs, provider)
        if old.external:
            return self._create(goal, inputs, provider, old=old)
        if self.selection.replaces(goal.urn):
            return self._replace(goal, old, provider, delete_before_replace=False)
        diff = provider.diff(old.outputs.get("__inputs") or old.inputs, old.live, inputs, goal.ignore)
        replaces = diff.replaces or [
            path for path in diff.changed if is_below(path, [parse(parent) for parent in goal.replace_on])
        ]
        if replaces or old.pending_replacement:
            return self._replace(goal, old, provider, delete_before_replace=diff.delete_before_replace)
        if diff.changed:
            return self._update(goal, old, inputs, provider)
        made = goal.resource(id=old.id, inputs=inputs, outputs=old.outputs, import_id=old.import_id)
        self._keep(made, old)
        return made

    def _create(self, goal: Goal, inputs: Body, provider: Provider, old: Resource | None = None) -> Resource:
        """Make an object; `old`: in whose place it is made, which is deleted later."""
        if self.is_preview:
            self._hooks(goal.before_create, goal, {"new_inputs": inputs})
            live = inputs if contains_unknown(inputs) else self._tried(provider, inputs)
            return goal.resource(inputs=inputs, outputs=live)
        self._begin("create", goal)
        self._hooks(goal.before_create, goal, {"new_inputs": inputs})
        try:
            live = self._step("create", goal, lambda: provider.create(inputs, dry_run=False))
        except RequestFailedError as error:
            self._error_hooks(goal, "create", error, {"new_inputs": inputs})
            raise
        made = goal.resource(id=_id(live), inputs=inputs, outputs={**live, "__inputs": inputs})
        self._late_hooks(goal.after_create, goal, {"new_inputs": inputs, "new_outputs": live})
        if old is not None:
            if old.pending_replacement:
                self.state.drop(old)
            else:
                old.delete = True
        self._end("create", goal, made, None)
        return made

    def _tried(self, provider: Provider, inputs: Body) -> Body:
        """The object after a dry run; where that is not possible the inputs, as the provider does."""
        try:
            return provider.create(inputs, dry_run=True)
        except RequestFailedError as error:
            if error.status in (403, 404) or "already exists" in str(error):
                return inputs
            raise

    def _update(self, goal: Goal, old: Resource, inputs: Body, provider: Provider) -> Resource:
        if self.is_preview:
            known = not contains_unknown(inputs)
            live = provider.update(inputs, old.live, goal.ignore, dry_run=True) if known else inputs
            return goal.resource(id=old.id, inputs=inputs, outputs=live)
        self._begin("update", goal)
        about = {"new_inputs": inputs, "old_inputs": old.inputs, "old_outputs": old.live}
        self._hooks(goal.before_update, goal, about)
        live = self._step("update", goal, lambda: provider.update(inputs, old.live, goal.ignore, dry_run=False))
        self._late_hooks(goal.after_update, goal, {**about, "new_outputs": live})
        made = goal.resource(id=old.id, inputs=inputs, outputs={**live, "__inputs": inputs}, import_id=old.import_id)
        self._end("update", goal, made, old)
        return made

    def _replace(self, goal: Goal, old: Resource, provider: Provider, *, delete_before_replace: bool) -> Resource:
        if goal.protect and old.protect:
            raise RequestFailedError(
                f"unable to replace resource {goal.urn!r} as it is currently marked for protection"
            )
        if goal.import_id:
            raise RequestFailedError("previously-imported resources that still specify an ID may not be replaced")
        inputs = provider.check(without_nulls(goal.inputs))
        first = delete_before_replace if goal.delete_before_replace is None else goal.delete_before_replace
        if first and not old.pending_replacement and not self.is_preview:
            self._delete(old, replaced=True)
        return self._create(goal, inputs, provider, old=None if self.is_preview else old)

    def _import(self, goal: Goal, old: Resource | None, provider: Provider) -> Resource:
        live = provider.read(goal.type, goal.import_id)
        if live is None:
            raise RequestFailedError(f"resource {goal.import_id!r} does not exist")
        declared = {key: value for key, value in live.items() if key != "status"}
        inputs = provider.check(declared)
        made = goal.resource(
            id=goal.import_id, inputs=inputs, outputs={**live, "__inputs": inputs}, import_id=goal.import_id
        )
        if old is not None and not self.is_preview:
            old.delete = True
        if not self.is_preview:
            self._begin("import", goal)
            self._end("import", goal, made, None)
        return made

    # Deletion

    def finish(self) -> None:
        """Delete what the program did not register. Raises RequestFailedError."""
        to_delete = [candidate for candidate in self.state.resources if candidate.delete or self._condemned(candidate)]
        for resource in reversed([*self._deletable(to_delete)]):
            if resource.pending_replacement and not resource.delete:
                self.state.drop(resource)
                self._save()
            else:
                self._delete(resource)

    def _deletable(self, candidates: list[Resource]) -> list[Resource]:
        """Return those that the options do not leave out. Raises RequestFailedError."""
        chosen = [resource.urn for resource in self.state.resources if not self.selection.includes(resource.urn)]
        if self.selection.target:
            targets = [resource.urn for resource in self.state.resources if self.selection.includes(resource.urn)]
            allowed = {*targets, *self.state.dependents(targets)}
            found = [resource for resource in candidates if resource.urn in allowed]
            if others := [resource.urn for resource in found if resource.urn in chosen]:
                raise RequestFailedError(f"{others[0]} will be destroyed but was not specified in --target list")
            return found
        kept, more = set[str](), {*chosen}
        while more:
            kept |= more
            more = {urn for resource in self.state.resources if resource.urn in more for urn in resource.needs} - kept
        return [resource for resource in candidates if resource.urn not in kept]

    def _condemned(self, resource: Resource) -> bool:
        return self.mode == "destroy" or resource.urn not in self.registered

    def _delete(self, old: Resource, *, replaced: bool = False) -> None:
        self._begin("delete", old)
        self._hooks(old.before_delete, old, {"old_inputs": old.inputs, "old_outputs": old.live})
        if old.protect and not replaced:
            raise RequestFailedError(f"resource {old.urn!r} cannot be deleted: it is protected")
        real = old.custom and old.type.startswith("kubernetes:") and not (old.external or old.retain)
        if not self.is_preview:
            if real:
                self._step("delete", old, lambda: self._for_old(old).delete(old.live))
            if replaced:
                old.pending_replacement = True
            else:
                self.state.drop(old)
            self._saved("delete", old)

    def _for_old(self, old: Resource) -> Provider:
        """The provider of what is not declared any more, configured anew where the program did not."""
        if old.provider not in self.providers:
            urn = old.provider.rpartition("::")[0]
            held = self.state.find(urn) or self.registered.get(urn)
            inputs = held.inputs if held else {}
            self.on_moment("configure", urn.split("::", 3)[3])
            cluster = connect(inputs.get("kubeconfig") or self.kubeconfig(), inputs.get("context"))
            applies = inputs.get("enableServerSideApply") != "false"
            self.providers[old.provider] = Provider(cluster, applies, self.collect_garbage, self.network)
        return self.providers[old.provider]

    def refresh(self) -> None:
        """Take over what the cluster holds of the state's objects. Raises RequestFailedError."""
        if self.mode == "refresh":
            self.state.pending.clear()
        for old in [resource for resource in self.state.resources if resource.type.startswith("kubernetes:")]:
            live = self._for_old(old).read(old.type, old.id)
            if live is None:
                self.state.drop(old)
            else:
                inputs = prune(live, old.inputs)
                old.inputs, old.outputs = inputs, {**live, "__inputs": inputs}
        self.state.forget_missing()
        self._save()

    # Steps

    def _of(self, provider: str) -> Provider:
        if provider not in self.providers:
            raise RequestFailedError(f"the provider {provider!r} was not registered")
        return self.providers[provider]

    def _begin(self, operation: str, resource: Goal | Resource) -> None:
        if not self.is_preview:
            begun = resource.resource() if isinstance(resource, Goal) else resource
            self.state.pending.append((operation, begun))
            self._save()
        self.on_moment(f"{operation} begins", resource.name)

    def _step(self, operation: str, resource: Goal | Resource, work: Callable[[], Any]) -> Any:
        """Do what changes the cluster."""
        if self.is_preview:
            return work()
        try:
            self.network.arm(self.on_moment(operation, resource.name))
            done = work()
        except RequestFailedError:
            self._settled(operation, resource)
            raise
        self.on_moment(f"{operation} done", resource.name)
        return done

    def _end(self, operation: str, resource: Goal, made: Resource, old: Resource | None) -> None:
        self.state.put(made, old)
        self._saved(operation, resource)

    def _saved(self, operation: str, resource: Goal | Resource) -> None:
        self._settled(operation, resource)
        self.on_moment(f"{operation} saved", resource.name)

    def _settled(self, operation: str, resource: Goal | Resource) -> None:
        self.state.settle(resource.urn, operation)
        self._save()

    def _keep(self, made: Resource, old: Resource | None) -> None:
        if not self.is_preview:
            self.state.put(made, old)
            self._save()

    def _save(self) -> None:
        if not self.is_preview:
            self.state.save()

    def _hooks(self, names: tuple[str, ...] | list[str], resource: Goal | Resource, about: Mapping[str, Any]) -> None:
        for name in names:
            if self.is_preview and name not in self.dry_hooks:
                continue
            self.on_moment("hook", f"{name} of {resource.name}")
            arguments = {
                "urn": resource.urn,
                "name": resource.name,
                "type": resource.type,
                "id": getattr(resource, "id", ""),
                **about,
            }
            if error := self.run_hook(name, arguments):
                if not self.is_preview:
                    self.state.settle(resource.urn)
                    self._save()
                raise RequestFailedError(error)
            self.on_moment("hook done", f"{name} of {resource.name}")

    def _error_hooks(self, resource: Goal, operation: str, error: RequestFailedError, about: Mapping[str, Any]) -> None:
        """Run the error hooks of the program; none of them requests a retry."""
        failure = {"failed_operation": operation, "errors": [str(error)]}
        for name in resource.on_error:
            self.on_moment("hook", f"{name} of {resource.name}")
            arguments = {"urn": resource.urn, "name": resource.name, "type": resource.type, **about, **failure}
            if problem := self.run_hook(name, arguments):
                raise RequestFailedError(f"error hooks execution failed: {problem}")
            self.on_moment("hook done", f"{name} of {resource.name}")

    def _late_hooks(self, names: tuple[str, ...], resource: Goal, about: Mapping[str, Any]) -> None:
        try:
            self._hooks(names, resource, about)
        except RequestFailedError as error:
            self.late_errors.append(str(error))


def _forget_import(goal: Goal) -> Goal:
    return Goal(**{**goal.__dict__, "import_id": ""})


def _id(live: Body) -> str:
    metadata = live["metadata"]
    return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
