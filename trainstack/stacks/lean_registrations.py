"""The parts of the SDK's registrations that the program does not use, and omits.

The SDK has no options for it, so functions of its modules are replaced.
"""

from typing import Any

import pulumi
from pulumi.runtime import resource, rpc
from pulumi.runtime.proto import source_pb2

from trainstack.components.objects import Object


def omit_unused_registration_data() -> None:
    """Omit unused data from the registrations of all resources from here on.

    - The source positions of declarations: the same few lines of this package for all objects of a kind. The engine
      only stores them, in a quarter of its state.
    - The outputs of objects, by field. They would be the engine's whole response, converted three times.
    - The URN that a resource would have without an engine, which the SDK computes from a dozen outputs. Only aliases
      need it, and the program declares none.
    """
    transfer, resolve = rpc.transfer_properties, rpc.resolve_outputs

    # Releases of the SDK add parameters to these functions.
    def transfer_to_components(res: pulumi.Resource, *args: Any, **options: Any) -> dict[str, Any]:
        return {} if isinstance(res, Object) else transfer(res, *args, **options)

    def resolve_of_components(res: pulumi.Resource, *args: Any, **options: Any) -> None:
        if not isinstance(res, Object):
            resolve(res, *args, **options)

    replacements = {
        (resource, "_get_stack_trace"): source_pb2.StackTrace,
        (resource, "create_urn"): lambda *_: pulumi.Output.from_input(""),
        (rpc, "transfer_properties"): transfer_to_components,
        (rpc, "resolve_outputs"): resolve_of_components,
    }
    for (module, name), function in replacements.items():
        setattr(module, name, function)
