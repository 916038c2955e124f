"""Storage classes, persistent volumes and claims."""

from collections.abc import Mapping
from typing import Any

import pulumi

from trainstack.components.objects import declare_component, resource_names
from trainstack.components.sections import build_stack_objects, validate_section
from trainstack.settings.sections.storage import Storage as StorageSettings
from trainstack.stack_objects.component import Component


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
            args = build_stack_objects(stack, storage=validate_section(StorageSettings, args)).storage_classes
        declare_component(args, self)
        self.classes = resource_names(args, "StorageClass")
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
            args = build_stack_objects(stack, storage=validate_section(StorageSettings, args)).volumes
        declare_component(args, self)
        self.volumes = resource_names(args, "PersistentVolumeClaim")
        self.register_outputs({"volumes": self.volumes})
