"""The objects of section `objects`."""

import pulumi

from trainstack.components.objects import declare_component, type_and_name
from trainstack.stack_objects.component import Component


class OtherObjects(pulumi.ComponentResource):
    """Objects that no other section describes, before the volumes and runs that use them."""

    names: pulumi.Output[list[str]]
    """The objects, as `<Kind> <namespace>/<name>`, once they exist."""

    def __init__(self, name: str, args: Component, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainstack:platform:OtherObjects", name, {}, opts)
        # A controller may write the token of an account into a Secret without values.
        secret_options = pulumi.ResourceOptions(additional_secret_outputs=["data", "stringData"])
        declare_component(args, self, {"Secret": secret_options})
        names = [f"{manifest['kind']} {type_and_name(manifest)[1]}" for manifest in args.manifests]
        self.names = pulumi.Output.from_input(names)
        self.register_outputs({"names": self.names})
