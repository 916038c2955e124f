"""The stack's memory of the cluster that it was made on."""

from collections.abc import Mapping
from functools import partial

import pulumi

from checks.identity import Cluster, another, memory_name


def remember(here: Cluster, stack: str, profile: str, *, expected: bool) -> pulumi.Output[pulumi.Resource]:
    """Keep in the engine's state which cluster this is, from the first `up` on; return what all objects come after.

    It is the first thing that the state holds, so an `up` that fails later has remembered it. On another cluster it
    fails, in previews too, and whatever comes after it is not made.

    Args:
        here: the cluster before us.
        stack: this stack.
        profile: who asks, an owner or a tenant.
        expected: the environment names this cluster, so it is remembered from now on in place of any other.

    """
    # The engine hands out the value of the first `up` as `output`, whatever it is given later, until it is replaced.
    memory = pulumi.Stash(
        memory_name(profile),
        input=dict(here.facts),
        opts=pulumi.ResourceOptions(replace_on_changes=["input"], ignore_changes=[] if expected else ["input"]),
    )
    return memory.output.apply(partial(_same, memory, here, stack, expected=expected))


def _same(
    memory: pulumi.Resource, here: Cluster, stack: str, remembered: Mapping[str, str], *, expected: bool
) -> pulumi.Resource:
    if not expected and (refusal := another(remembered, here, stack)):
        raise pulumi.RunError(refusal)
    return memory
