"""Installs of operators: Kueue first, since its webhooks would block the pods of the others until it runs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi

from trainstack.components.objects import declare_component
from trainstack.components.sections import label, validated
from trainstack.declared import platform
from trainstack.declared.component import Component
from trainstack.declared.inputs import ReleasesError, release_path
from trainstack.live.client import ClusterError
from trainstack.live.releases import fetch
from trainstack.live.webhooks import wait_until_accepted
from trainstack.platform import probes
from trainstack.platform.operators.release import read_release
from trainstack.settings.sections.operators import Operators as OperatorsSettings


@dataclass(frozen=True, kw_only=True)
class OperatorArgs:
    version: str
    objects: Component
    """All objects except the definitions: namespaces, setup, controllers, extensions."""
    probe: Mapping[str, Any]
    """An object for a dry run, which the operator's webhooks admit."""
    context: str | None
    """The kubeconfig's context; None: the current one."""

    def wait(self) -> None:
        """Return once the operator's webhooks admit objects. Raises ClusterError after a deadline."""
        wait_until_accepted(self.probe, self.context)


class Definitions(pulumi.ComponentResource):
    """The CustomResourceDefinitions of all operators, before the first operator.

    The engine never deletes them, since that would delete every object of their kinds, also of other teams.
    """

    kinds: pulumi.Output[list[str]]
    """The names of the definitions, `<plural>.<group>`, once they exist."""

    def __init__(self, name: str, args: Component, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainstack:platform:Definitions", name, {}, opts)
        declare_component(args, self)
        self.kinds = pulumi.Output.from_input([manifest["metadata"]["name"] for manifest in args.manifests])
        self.register_outputs({"kinds": self.kinds})


class Operator(pulumi.ComponentResource):
    version: pulumi.Output[str]
    """The release, once its webhooks are available; in a preview known only if its controller exists."""

    def __init__(self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainstack:platform:Operator", name, {}, opts)
        # A ready controller is not enough: until the nodes route the Service to the pod, objects are refused.
        hook = pulumi.ResourceHook(f"{name}-answers", lambda _: args.wait())
        binding = pulumi.ResourceHookBinding(after_create=[hook], after_update=[hook])
        resources = declare_component(args.objects, self, {"Deployment": pulumi.ResourceOptions(hooks=binding)})
        pairs = zip(args.objects.manifests, resources, strict=True)
        controllers = [resource for manifest, resource in pairs if manifest["kind"] == "Deployment"]
        self.version = pulumi.Output.all(*(controller.id for controller in controllers)).apply(
            lambda _: _version_once_available(args)
        )
        self.register_outputs({"version": self.version})


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
        """Install operators.

        Args:
            args: the installs, as in section `trainstack:operators` of an environment's file.
            root: the folder that the paths of release manifests are relative to; by default the working directory.
            stack: the label of the objects; by default the Pulumi stack.
            context: the kubeconfig's context that `opts.provider` uses; None: the current one.

        A release that is named by its URL is downloaded into the user's cache. Raises ReleaseError if a release
        manifest is missing, cannot be downloaded, or has another sha256.

        """
        super().__init__("trainstack:platform:Operators", name, {}, opts)
        installs, folder, stack = validated(OperatorsSettings, args), root or Path.cwd(), label(stack)
        local, errors = fetch(installs, pulumi.log.info)
        if errors:
            raise ReleasesError(errors)
        releases = {
            operator: read_release(release_path(install.manifest, folder), install.manifest.sha256)
            for operator, install in local.installs.items()
        }
        operators = platform.operators(installs, releases, stack)
        after: list[pulumi.Resource] = [
            Definitions(f"{name}-definitions", platform.definitions(operators), pulumi.ResourceOptions(parent=self))
        ]
        versions: dict[str, pulumi.Output[str]] = {}
        for operator, manifests in operators.items():
            operator_args = OperatorArgs(
                version=installs.installs[operator].manifest.version,
                objects=platform.operator(manifests),
                probe=probes.BY_OPERATOR[operator](stack),
                context=context,
            )
            installed = Operator(operator, operator_args, pulumi.ResourceOptions(parent=self, depends_on=[*after]))
            versions[operator] = installed.version
            after.append(installed)
        self.versions = versions
        self.register_outputs({"versions": versions})


async def _version_once_available(args: OperatorArgs) -> str:
    # If the program was killed during the hook, the controller is in the state, and the next `up` runs no hook.
    if not pulumi.runtime.is_dry_run():
        try:
            await asyncio.to_thread(args.wait)
        except ClusterError as error:
            raise pulumi.RunError(str(error)) from error
    return args.version
