"""Storage classes, persistent volumes and claims."""

from collections.abc import Mapping
from typing import Any

import pulumi

from trainstack.components.objects import declare_component
from trainstack.components.sections import label, validated
from trainstack.declared import platform
from trainstack.declared.component import Component
from trainstack.settings.sections.storage import Storage as StorageSettings


class StorageClasses(pulumi.ComponentResource):
    """Storage classes, then the persistent volumes on hosts that use them."""

    classes: pulumi.Output[list[str]]
    """The names of the storage classes, once they exist."""

    def __init__(
        self,
        name: str,
        args: StorageSettings | Mapping[str, Any] | Component,
        opts: pulumi.ResourceOptions | None = None,
        *,
        stack: str | None = None,
    ) -> None:
        """Declare `classes` and `persistentVolumes` of section `trainstack:storage`; a destroy retains the volumes.

        `stack` labels the objects; by default, the Pulumi stack.
        """
        super().__init__("trainstack:platform:StorageClasses", name, {}, opts)
        if not isinstance(args, Component):
            storage = validated(StorageSettings, args)
            args = platform.storage_classes(storage.classes, storage.persistent_volumes, label(stack))
        declare_component(args, self)
        self.classes = pulumi.Output.from_input([item["metadata"]["name"] for item in args.of_kind("StorageClass")])
        self.register_outputs({"classes": self.classes})


class Volumes(pulumi.ComponentResource):
    """The persistent volume claims that runs mount."""

    volumes: pulumi.Output[list[str]]
    """The claims, as `<namespace>/<name>`, once they exist."""

    def __init__(
        self,
        name: str,
        args: StorageSettings | Mapping[str, Any] | Component,
        opts: pulumi.ResourceOptions | None = None,
        *,
        stack: str | None = None,
    ) -> None:
        """Declare `volumes` of section `trainstack:storage`. Deleting a claim deletes its data (see `retain`).

        `stack` labels the objects; by default, the Pulumi stack.
        """
        super().__init__("trainstack:training:Volumes", name, {}, opts)
        if not isinstance(args, Component):
            args = platform.claims(validated(StorageSettings, args).volumes, label(stack))
        declare_component(args, self)
        claims = [claim["metadata"] for claim in args.manifests]
        self.volumes = pulumi.Output.from_input([f"{claim['namespace']}/{claim['name']}" for claim in claims])
        self.register_outputs({"volumes": self.volumes})
