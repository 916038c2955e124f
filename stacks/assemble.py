"""From a decision to resources: both halves of the house, or the one that the stack holds."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes import Provider

from components.objects import PROVIDER_VERSION
from components.runs import RunsArgs
from stacks.platform import platform
from stacks.program import Program
from stacks.training import training
from workloads.records import ledger_config_map


def assemble(program: Program) -> Mapping[str, pulumi.Input[Any]]:
    """Declare everything and return the stack's outputs: what a person needs next."""
    settings = program.settings
    halves = settings.environment.halves
    # The kubeconfig is the person's, and comes by KUBECONFIG: it is never written into the state.
    provider = Provider(
        "cluster",
        context=settings.cluster.context,
        # A changed ConfigMap is edited, not deleted first (which a pod would notice).
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
        opts=pulumi.ResourceOptions(version=PROVIDER_VERSION),
    )
    opts = pulumi.ResourceOptions(providers=[provider])
    outputs: dict[str, pulumi.Input[Any]] = {"schema": 1}
    after: tuple[pulumi.Resource, ...] = ()
    if "platform" in halves:
        declared = platform(settings, program.operators, program.retained, opts)
        after = declared.resources
        outputs.update(declared.outputs)
    elif settings.environment.platform is not None:
        outputs["platform"] = pulumi.StackReference(settings.environment.platform).require_output("localQueues")
    if "training" in halves:
        runs = RunsArgs(
            wrappers=program.wrappers,
            launches=[each.launch for each in program.launches],
            ledgers={each.launch_name: ledger_config_map(settings.stack, each) for each in program.ledgers},
        )
        outputs.update(training(settings, runs, after, opts))
    outputs["retained"] = [
        f"{each.kind} {f'{each.namespace}/' if each.namespace else ''}{each.name}: {each.reason}"
        for each in program.retained
    ]
    outputs["commands"] = {
        "status": f"trainstack status -s {settings.stack}",
        "wait": f"trainstack wait -s {settings.stack}",
        **{f"fetch {each.run_id}": f"trainstack fetch {each.run_id} -s {settings.stack}" for each in program.ledgers},
    }
    return outputs
