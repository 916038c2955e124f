"""Storage classes, static volumes and claims."""

from dataclasses import dataclass

import pulumi

from trainstack.components.objects import declare
from trainstack.platform import storage as build
from trainstack.settings.sections.storage import Storage as StorageSettings


@dataclass(frozen=True, kw_only=True)
class StorageArgs:
    """What `Storage` declares, and where it comes from."""

    stack: str
    storage: StorageSettings


class StorageClasses(pulumi.ComponentResource):
    """The platform's half of storage: classes, and volumes on hosts."""

    classes: pulumi.Output[list[str]]
    """The names of the classes that there are now."""

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the classes, then the volumes that belong to them."""
        super().__init__("trainstack:platform:StorageClasses", name, {}, opts)
        storage = args.storage
        classes = declare((build.storage_class(each, args.stack) for each in storage.classes), self)
        declare(
            (build.persistent_volume(each, args.stack) for each in storage.persistent_volumes),
            self,
            classes,
            pulumi.ResourceOptions(retain_on_delete=True),
        )
        self.classes = pulumi.Output.from_input([each.name for each in storage.classes])
        self.register_outputs({"classes": self.classes})


class Volumes(pulumi.ComponentResource):
    """The team's half of storage: the claims that runs mount."""

    volumes: pulumi.Output[list[str]]
    """The claims, as `<namespace>/<name>`."""

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the claims. Deleting one deletes its data, so the settings say which outlive the stack."""
        super().__init__("trainstack:training:Volumes", name, {}, opts)
        for volume in args.storage.volumes:
            keep = pulumi.ResourceOptions(retain_on_delete=volume.retain, protect=volume.protect)
            declare([build.claim(volume, args.stack)], self, opts=keep)
        self.volumes = pulumi.Output.from_input([f"{each.namespace}/{each.name}" for each in args.storage.volumes])
        self.register_outputs({"volumes": self.volumes})
