"""Installs of operators: side by side, unless Kueue's webhooks would block the pods of the others until it runs."""

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pulumi
from semver import Version

from trainstack.components.definitions import Definitions
from trainstack.components.objects import declare_component, in_thread
from trainstack.components.queued_trainjobs import add_runtime_patches
from trainstack.components.sections import build_stack_objects, validate_section
from trainstack.components.storage_migration import migrate_stored_objects
from trainstack.guards.definition_releases import plan_releases
from trainstack.live import kubeconfig
from trainstack.live.client import ClusterError
from trainstack.live.releases import fetch
from trainstack.live.snapshot import read_metadata
from trainstack.live.webhooks import wait_until_accepted
from trainstack.platform import probes
from trainstack.platform.operators.kueue import manages_pods
from trainstack.platform.operators.release import read_release
from trainstack.settings.model import Cluster
from trainstack.settings.sections.operators import Operators as OperatorsSettings
from trainstack.stack_objects.inputs import Inputs, ReleasesError, release_path
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.versions import parse_release

_RUNTIME_PATCHES = Version(2, 2, 0)
"""The first Trainer whose TrainJobs have `runtimePatches`."""


class Operator(pulumi.ComponentResource):
    """An operator of an environment, without its definitions."""

    version: pulumi.Output[str]
    """The release, once its webhooks accept objects; in a preview known only if its controller exists."""
    dependencies: Sequence[pulumi.Input[pulumi.Resource]]
    """The dependencies of what uses the operator: its controllers and what follows them, without a controller all
    objects; and `available`."""
    available: pulumi.Output[pulumi.Resource]
    """The last object, once the webhooks accept objects."""

    def __init__(
        self,
        name: str,
        stack_objects: StackObjects,
        opts: pulumi.ResourceOptions | None = None,
        *,
        previous_operators: Sequence["Operator"] = (),
    ) -> None:
        """Install an operator.

        Its webhooks are probed after those of `previous_operators`, which may receive its kinds.
        """
        super().__init__("trainstack:platform:Operator", name, {}, opts)
        settings, objects = stack_objects.settings, stack_objects.installs[name]
        probe = probes.BY_OPERATOR[name](settings.stack)
        definitions = stack_objects.operators[name].crds
        release = settings.operators.installs[name].manifest.version
        resources = declare_component(objects, self)
        kinds = [manifest["kind"] for manifest in objects.manifests]
        controllers = [resource for kind, resource in zip(kinds, resources, strict=True) if kind == "Deployment"]
        dependencies = resources[kinds.index("Deployment") if controllers else 0 :]

        async def version_once_available(_: object) -> str:
            # A ready controller is not enough: until the nodes route the Service to the pod, objects are refused. A
            # hook of the controller must not wait for that: it would stop other steps of the engine, such as those of
            # Kueue, whose webhooks may receive the probe.
            if not pulumi.runtime.is_dry_run():
                try:
                    await in_thread(partial(wait_until_accepted, probe, settings.cluster.context))
                    notes = await in_thread(partial(migrate_stored_objects, definitions, settings.cluster.context))
                    if name == "trainer" and (version := parse_release(release)) and version >= _RUNTIME_PATCHES:
                        notes += await in_thread(partial(add_runtime_patches, settings.cluster.context))
                except ClusterError as error:
                    raise pulumi.RunError(str(error)) from error
                for note in notes:
                    pulumi.log.warn(note, self)
            return release

        awaited_outputs = [
            *(controller.id for controller in controllers),
            *(operator.version for operator in previous_operators),
        ]
        self.version = pulumi.Output.all(*awaited_outputs).apply(version_once_available)
        self.available = self.version.apply(lambda _: dependencies[-1])
        self.dependencies = [*dependencies, self.available]
        self.register_outputs({"version": self.version})


def install_operators(
    stack_objects: StackObjects, opts: pulumi.ResourceOptions, dependencies: Sequence[pulumi.Resource]
) -> Mapping[str, Operator]:
    """Declare the operators, and return them by name. If Kueue manages pods, the others follow it."""
    operators: dict[str, Operator] = {}
    kueue = stack_objects.settings.operators.kueue
    depends_on: list[pulumi.Input[pulumi.Resource]] = [*dependencies]
    for name in stack_objects.installs:
        operator_options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=depends_on))
        operators[name] = Operator(name, stack_objects, operator_options, previous_operators=[*operators.values()])
        if name == "kueue" and kueue is not None and manages_pods(kueue.configuration):
            depends_on = [*operators[name].dependencies]
    return operators


class Operators(pulumi.ComponentResource):
    """Kueue, the Kubeflow training operator, JobSet and Trainer, from the manifests of their releases."""

    versions: Mapping[str, pulumi.Output[str]]
    """The releases by operator, once their webhooks accept objects."""
    available: Sequence[pulumi.Output[pulumi.Resource]]
    """An object of each operator, once its webhooks accept objects: for `depends_on` of what uses them."""

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
        operator_settings, root_folder = validate_section(OperatorsSettings, args), root or Path.cwd()
        local, errors = fetch(operator_settings, pulumi.log.info)
        if errors:
            raise ReleasesError(errors)
        releases = {
            operator: tuple(read_release(release_path(install.manifest, root_folder), install.manifest.sha256))
            for operator, install in local.installs.items()
        }
        stack_objects = build_stack_objects(
            stack, Inputs(releases=releases), operators=operator_settings, cluster=Cluster(context=context)
        )
        child_options = pulumi.ResourceOptions(parent=self)
        try:
            live_metadata, preparations = read_metadata(stack_objects.definitions.manifests, context), {}
        except ClusterError:
            # The program may create the cluster, too: its preview cannot try the definitions there, and its `up` reads
            # the kubeconfig again.
            kubeconfig.clear_cache()
            live_metadata, preparations = {}, {m["metadata"]["name"]: () for m in stack_objects.definitions.manifests}
        # The state cannot be read while resources are registered, and the program may have registered some.
        planned_definitions = plan_releases(stack_objects, live_metadata, {}, salt=secrets.token_hex(4))
        definitions = Definitions(
            f"{name}-definitions", planned_definitions, child_options, context=context, preparations=preparations
        )
        operators = install_operators(stack_objects, child_options, [definitions])
        self.versions = {operator: operator_component.version for operator, operator_component in operators.items()}
        self.available = [operator_component.available for operator_component in operators.values()]
        self.register_outputs({"versions": self.versions})
