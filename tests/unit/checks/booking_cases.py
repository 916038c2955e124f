"""Environments whose runs get another quota, or other nodes, than their author would expect."""

from tests.unit.checks.cases import Case
from tests.unit.make import make_distributed, make_kueue, make_run, make_settings
from trainstack.settings.sections.operators import Operators, Transformation
from trainstack.settings.sections.workloads import Resources, Role

RUN = "workloads.runs[train]"
REQUEST = "set `resources.requests`, at least of `cpu` and `memory`"

BOOKING_CASES: dict[str, list[Case]] = {
    "requests-nothing": [
        Case(
            make_settings(make_run(resources=Resources())),
            f"{RUN}.resources",
            "each pod requests nothing: it uses no quota and gets no flavor, so Kueue does not select its nodes",
            REQUEST,
            "warning",
        ),
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "0"}))),
            f"{RUN}.resources",
            "each pod requests only an amount of 0: it uses no quota",
            REQUEST,
            "warning",
        ),
        Case(
            make_settings(make_distributed(roles={"Master": Role(resources=Resources()), "Worker": Role(replicas=2)})),
            f"{RUN}.roles.Master.resources",
            "each master pod requests nothing: it uses no quota and gets no flavor, so Kueue does not select its nodes",
            REQUEST,
            "warning",
        ),
        Case(
            make_settings(
                make_run(),
                operators=Operators(
                    kueue=make_kueue(
                        exclude_resource_prefixes=("mem",),
                        transformations=(Transformation(input="cpu", strategy="Replace"),),
                    )
                ),
            ),
            f"{RUN}.resources",
            "each pod requests only cpu, memory, which Kueue's Configuration does not count: it uses no quota and gets "
            "no flavor, so Kueue does not select its nodes",
            REQUEST,
            "warning",
        ),
    ],
}
"""Cases by the id of the rule that finds the fault."""
