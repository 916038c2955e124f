"""From a workload to the manifest of its launch."""

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from trainstack.objects.labels import LIMIT, Manifest
from trainstack.runs import names
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import Facts, digest, run_id
from trainstack.runs.launch import InSweep, Launch
from trainstack.runs.manifests.kind import Body
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.runs.manifests.trial_pod import carry_files
from trainstack.settings.sections.queues import MULTI_KUEUE
from trainstack.settings.sections.workloads import Workload

_STARTS_WITH_LETTER = re.compile(r"^[a-z]")


def manifest(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """The object that executes the run. Raises WorkloadError."""
    return WORKLOAD_KINDS[workload.kind].build(workload, stack, launch)


def dispatched(workload: Workload, launch: Manifest, files: Mapping[str, str] | None = None) -> Manifest:
    """Return a copy of the launch's object that MultiKueue's controller manages: no pod starts in this cluster.

    Kueue's webhook sets the field too, but only once its cache has the queue's check. The launch's name does not depend
    on it: a check that is added to a queue later changes no run. `files`: those of its sweep, which its pods carry.
    """
    kind = WORKLOAD_KINDS[workload.kind]
    if kind.managed_by is None:
        return launch
    result = deepcopy(launch)
    section = result
    for key in kind.managed_by[:-1]:
        section = section.setdefault(key, {})
    section[kind.managed_by[-1]] = MULTI_KUEUE
    for pods in kind.launched_pods(result, ()) if files else ():
        # The templates are parts of `result`.
        carry_files(cast("Manifest", pods.template), files or {})
    return result


def is_dispatched(launch: Body) -> bool:
    """Whether MultiKueue manages a launch, read from its object."""
    path = WORKLOAD_KINDS[launch["kind"]].managed_by if launch["kind"] in WORKLOAD_KINDS else None
    value: Any = launch
    for key in path or ("",):
        value = (value or {}).get(key)
    return bool(value == MULTI_KUEUE)


def companions(workload: Workload, stack: str, launch: Launch) -> tuple[Manifest, ...]:
    """The objects that the launch refers to, for this launch alone; none for most kinds. Raises WorkloadError."""
    build = WORKLOAD_KINDS[workload.kind].companion
    return () if build is None else (build(workload, stack, launch),)


def plan(workload: Workload, stack: str, facts: Facts, sweep: InSweep | None = None) -> Launch:
    """The launch of a workload as currently declared, with its name.

    The name is a hash of the whole object except for the name itself, its copies in labels and environment, and the
    commit: an object with immutable fields never needs an edit under the same name. The number of a trial and its
    sweep's file are excluded too.

    Raises WorkloadError when it cannot be built or a name derived from it would be too long.
    """
    run = run_id(workload, facts)
    draft = Launch(run_id=run, name="", facts=replace(facts, commit=""), sweep=sweep and sweep.unnumbered)
    launched, others = manifest(workload, stack, draft), companions(workload, stack, draft)
    name = names.launch_name(run, digest([launched, *others] if others else launched))
    launch = Launch(run_id=run, name=name, facts=facts, sweep=sweep)
    check_names(workload, launch.name, launch.number)
    return launch


def longest_child(workload: Workload, launch: str, number: int | None = None) -> str:
    """The longest name that is derived from a launch's: the last pod's of its largest role or index, or its own."""
    name = names.object_name(workload, launch, number)
    # A label holds the launch's name, whatever its object is called.
    return max([*WORKLOAD_KINDS[workload.kind].derived_names(workload, name), launch], key=len)


def check_names(workload: Workload, launch: str, number: int | None = None) -> None:
    """Refuse a launch whose name, or a name derived from it, the cluster would refuse. Raises WorkloadError."""
    child = longest_child(workload, launch, number)
    if len(child) > LIMIT:
        raise WorkloadError(
            f"workload {workload.name}: its longest derived name would be {child} with {len(child)} characters, and "
            f"Kubernetes allows {LIMIT}",
            f"shorten the workload's name by {len(child) - LIMIT}",
        )
    service = WORKLOAD_KINDS[workload.kind].service
    if service and not _STARTS_WITH_LETTER.match(names.object_name(workload, launch, number)):
        raise WorkloadError(
            f"workload {workload.name}: {service} named after it, so its name must start with a letter",
            "put a letter before the workload's name",
        )
