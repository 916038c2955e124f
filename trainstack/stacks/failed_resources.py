"""The dependents of resources that the engine could not create or update."""

from typing import Any

import pulumi
from pulumi.runtime import resource, stack


def register_dependents_of_failed_resources() -> None:
    """Register a resource also if one that it depends on has failed.

    With `--continue-on-error`, the engine skips such a resource, and keeps it if its state has it. Releases of the SDK
    after 3.250 do not register it: the program ends with an error, while the engine still calls the hooks of other
    resources. If the program did not end, the engine would delete the resource, which looks undeclared.
    """
    failure = getattr(stack, "ResourceRegistrationFailed", None)
    if failure is None:
        return
    resource_output: Any = resource.resource_output

    def output_of_any_resource(res: pulumi.Resource) -> tuple[Any, pulumi.Output[Any]]:
        resolve, output = resource_output(res)

        def resolve_despite_failure(*arguments: Any) -> None:
            resolve(*(None if isinstance(argument, failure) else argument for argument in arguments))

        return resolve_despite_failure, output

    # The URN and the id, by which dependents refer to the resource. The SDK has no option for it.
    resource.resource_output = output_of_any_resource
