"""What the SDK does for each registration, and the program does not use.

The SDK has no options for it, so functions of its modules are replaced.
"""

from typing import Any

import pulumi
from pulumi.runtime import resource, rpc
from pulumi.runtime.proto import source_pb2

from trainstack.components.objects import Object


def omit_unused() -> None:
    """Register all resources from here on without what the program does not use.

    - The places in the source where resources are declared: the same few lines of this package for all objects of a
      kind. The engine only stores them, in a quarter of its state.
    - The outputs of objects, by field. They would be the engine's whole answer, converted three times.
    - The URN that a resource would have without an engine: the SDK computes it from a dozen outputs. Aliases, which
      also need it, are not declared.
    """
    transfer, resolve = rpc.transfer_properties, rpc.resolve_outputs

    def transfer_to_components(res: pulumi.Resource, *args: Any) -> dict[str, Any]:
        return {} if isinstance(res, Object) else transfer(res, *args)

    def resolve_of_components(res: pulumi.Resource, *args: Any) -> None:
        if not isinstance(res, Object):
            resolve(res, *args)

    replacements = {
        (resource, "_get_stack_trace"): source_pb2.StackTrace,
        (resource, "create_urn"): lambda *_: pulumi.Output.from_input(""),
        (rpc, "transfer_properties"): transfer_to_components,
        (rpc, "resolve_outputs"): resolve_of_components,
    }
    for (module, name), function in replacements.items():
        setattr(module, name, function)
