"""Installs of operators: side by side, unless Kueue's webhooks would block the pods of the others until it runs."""

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import Any

import pulumi

from trainstack.components.definitions import Definitions
from trainstack.components.objects import blocking_hook, declare_component, in_thread
from trainstack.components.sections import declared, validated
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import Inputs, ReleasesError, release_path
from trainstack.guards.definitions import planned
from trainstack.live import kubeconfig
from trainstack.live.client import ClusterError
from trainstack.live.releases import fetch
from trainstack.live.snapshot import read_metadata
from trainstack.live.webhooks import wait_until_accepted
from trainstack.platform import probes
from trainstack.platform.operators.kueue import NAMESPACE, manages_pods
from trainstack.platform.operators.release import read_release
from trainstack.settings.model import Cluster
from trainstack.settings.sections.operators import Operators as OperatorsSettings

_START_SECONDS = 600.0
"""How long the provider waits for a controller by default."""


class Operator(pulumi.ComponentResource):
    """An operator of an environment, without its definitions."""

    version: pulumi.Output[str]
    """The release, once its webhooks are available; in a preview known only if its controller exists."""
    last: Sequence[pulumi.Resource]
    """The controllers and what follows them, which follow all other objects; all objects without a controller."""
    available: Future[None]
    """Done once the webhooks accept objects, or with the error if they do not. Never done in a preview."""

    def __init__(
        self,
        name: str,
        declared: Declared,
        opts: pulumi.ResourceOptions | None = None,
        *,
        kueue: "Operator | None" = None,
    ) -> None:
        """Install an operator. `kueue` is the Kueue of the same environment, whose webhooks may act on its kinds."""
        super().__init__("trainstack:platform:Operator", name, {}, opts)
        settings, objects = declared.settings, declared.installs[name]
        self.available, waiting = Future(), Lock()
        probe = probes.BY_OPERATOR[name](settings.stack)

        def wait() -> None:
            with waiting:
                if not self.available.done():
                    try:
                        wait_until_accepted(probe, settings.cluster.context)
                    except BaseException as error:
                        self.available.set_exception(error)
                        raise
                    self.available.set_result(None)
            self.available.result()

        def wait_after_kueue() -> None:
            if kueue is not None:
                _await_kueue(kueue.available)
            wait()

        # A ready controller is not enough: until the nodes route the Service to the pod, objects are refused.
        hook = blocking_hook(f"{name}-answers", wait_after_kueue)
        binding = pulumi.ResourceHookBinding(after_create=[hook], after_update=[hook])
        resources = declare_component(objects, self, {"Deployment": pulumi.ResourceOptions(hooks=binding)})
        kinds = [manifest["kind"] for manifest in objects.manifests]
        controllers = [resource for kind, resource in zip(kinds, resources, strict=True) if kind == "Deployment"]
        self.last = resources[kinds.index("Deployment") if controllers else 0 :]

        async def version_once_available(_: object) -> str:
            # If the program was killed during the hook, the controller is in the state, and the next `up` runs no hook.
            if not pulumi.runtime.is_dry_run():
                try:
                    await in_thread(wait)
                except ClusterError as error:
                    raise pulumi.RunError(str(error)) from error
            return settings.operators.installs[name].manifest.version

        earlier = [] if kueue is None else [kueue.version]
        ids = [controller.id for controller in controllers]
        self.version = pulumi.Output.all(*ids, *earlier).apply(version_once_available)
        self.register_outputs({"version": self.version})


def _await_kueue(available: Future[None]) -> None:
    """Wait for Kueue, which may start later than an operator beside it. Raises ClusterError."""
    try:
        available.result(_START_SECONDS)
    except TimeoutError as error:
        message = f"Kueue did not start within {_START_SECONDS:.0f} s; inspect its pod: kubectl get pods -n {NAMESPACE}"
        raise ClusterError(message) from error


def install(
    declared: Declared, opts: pulumi.ResourceOptions, after: Sequence[pulumi.Resource]
) -> Mapping[str, Operator]:
    """Declare the operators, and return them by name. If Kueue manages pods, the others follow it."""
    operators: dict[str, Operator] = {}
    kueue, depends_on = declared.settings.operators.kueue, [*after]
    for name in declared.installs:
        following = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=depends_on))
        operators[name] = Operator(name, declared, following, kueue=operators.get("kueue"))
        if name == "kueue" and kueue is not None and manages_pods(kueue.configuration):
            depends_on = [*operators[name].last]
    return operators


class Operators(pulumi.ComponentResource):
    """Kueue, the Kubeflow training operator, JobSet and Trainer, from the manifests of their releases."""

    versions: Mapping[str, pulumi.Output[str]]
    """The releases by operator, once their webhooks are available."""

    def __init__(
        self,
        name: str,
        args: OperatorsSettings | Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
        *,
        root: Path | None = None,
        stack: str | None = None,
        context: str | None = None,
    ) -> None:
        """Install the operators of section `trainstack:operators` of an environment's file.

        `root` is the folder that the paths of release manifests are relative to, by default the working directory.
        `stack` labels the objects; by default, the Pulumi stack. `context` is the kubeconfig's context that
        `opts.provider` uses, by default the current one.

        A release that is named by its URL is downloaded into the user's cache. Raises ReleaseError if a release
        manifest is missing, cannot be downloaded, or has another sha256.
        """
        super().__init__("trainstack:platform:Operators", name, {}, opts)
        installs, folder = validated(OperatorsSettings, args), root or Path.cwd()
        local, errors = fetch(installs, pulumi.log.info)
        if errors:
            raise ReleasesError(errors)
        releases = {
            operator: tuple(read_release(release_path(install.manifest, folder), install.manifest.sha256))
            for operator, install in local.installs.items()
        }
        environment = declared(stack, Inputs(releases=releases), operators=installs, cluster=Cluster(context=context))
        own = pulumi.ResourceOptions(parent=self)
        try:
            live, before = read_metadata(environment.definitions.manifests, context), {}
        except ClusterError:
            # The program may create the cluster, too: its preview cannot try the definitions there, and its `up` reads
            # the kubeconfig again.
            kubeconfig.forget()
            live, before = {}, {manifest["metadata"]["name"]: () for manifest in environment.definitions.manifests}
        # The state cannot be read while resources are registered, and the program may have registered some.
        planned_definitions = planned(environment, live, {}, salt=secrets.token_hex(4))
        definitions = Definitions(f"{name}-definitions", planned_definitions, own, context=context, before=before)
        operators = install(environment, own, [definitions])
        self.versions = {operator: installed.version for operator, installed in operators.items()}
        self.register_outputs({"versions": self.versions})
