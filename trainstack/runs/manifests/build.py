"""The name and the manifest of a workload's launch."""

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from trainstack.objects.labels import MAX_LABEL_CHARACTERS, Manifest
from trainstack.runs import names
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import PLACEHOLDER_FACTS, Facts, digest, run_id
from trainstack.runs.launch import Launch, SweepInputs
from trainstack.runs.manifests.kind import Body
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.runs.manifests.sweep_pod import mount_files_from_annotations
from trainstack.runs.manifests.user_manifest import manifest_launch
from trainstack.settings.sections.queues import MULTI_KUEUE_CONTROLLER
from trainstack.settings.sections.workloads import Workload

_STARTS_WITH_LETTER = re.compile(r"^[a-z]")


def manifest(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the object that executes a run. Raises WorkloadError."""
    if workload.manifest is not None:
        return manifest_launch(workload, stack, launch)
    return WORKLOAD_KINDS[workload.kind].build(workload, stack, launch)


def dispatched_launch(workload: Workload, launch: Manifest, files: Mapping[str, str] | None = None) -> Manifest:
    """Return a copy of the launch's object that MultiKueue's controller manages, so that no pod starts in this cluster.

    Kueue's webhook sets the field, too, but only when its cache contains the queue's admission check. The launch's name
    does not depend on the field, so adding the check to a queue later changes no run. `files`: the files of the
    launch's sweep, which its pods receive as annotations.
    """
    kind = WORKLOAD_KINDS[workload.kind]
    if kind.managed_by is None:
        return launch
    result = deepcopy(launch)
    section = result
    for key in kind.managed_by[:-1]:
        section = section.setdefault(key, {})
    section[kind.managed_by[-1]] = MULTI_KUEUE_CONTROLLER
    for pods in kind.launched_pods(result, ()) if files else ():
        # The templates are parts of `result`, so this changes `result`.
        mount_files_from_annotations(cast("Manifest", pods.template), files or {})
    return result


def is_dispatched(launch: Body) -> bool:
    """Return whether MultiKueue manages a launch, read from its object."""
    path = WORKLOAD_KINDS[launch["kind"]].managed_by if launch["kind"] in WORKLOAD_KINDS else None
    value: Any = launch
    for key in path or ("",):
        value = (value or {}).get(key)
    return bool(value == MULTI_KUEUE_CONTROLLER)


def companions(workload: Workload, stack: str, launch: Launch) -> tuple[Manifest, ...]:
    """Return the objects that only this launch refers to; () for most kinds. Raises WorkloadError."""
    if workload.manifest is not None:
        return ()
    companion = WORKLOAD_KINDS[workload.kind].build_companion(workload, stack, launch)
    return () if companion is None else (companion,)


def plan_launch(workload: Workload, stack: str, facts: Facts, sweep: SweepInputs | None = None) -> Launch:
    """Return the launch of a workload as currently declared, with its name.

    The name contains a hash of the whole object except for the name, its copies in labels and environment, and the
    commit, so an object with immutable fields is never edited under the same name. The number of a trial and the file
    of its sweep are excluded, too.

    Raises WorkloadError if the object cannot be built or a name derived from its name is too long.
    """
    run = run_id(workload, facts)
    # The draft has no name, commit, trial number and file, so the hash does not depend on them.
    draft = Launch(run_id=run, name="", facts=replace(facts, commit=""), sweep=sweep and sweep.without_numbering)
    launch_manifest, companion_manifests = manifest(workload, stack, draft), companions(workload, stack, draft)
    name = names.launch_name(
        run, digest([launch_manifest, *companion_manifests] if companion_manifests else launch_manifest)
    )
    launch = Launch(run_id=run, name=name, facts=facts, sweep=sweep)
    check_names(workload, launch.name, launch.trial_number, launch_manifest)
    return launch


def longest_derived_name(
    workload: Workload, launch: str, trial_number: int | None = None, launch_manifest: Manifest | None = None
) -> str:
    """Return the longest name that is derived from a launch's name, or the launch's name if it is longer.

    `launch_manifest`: the launch's object, also with another name, if it is built already. Raises WorkloadError.
    """
    if launch_manifest is None:
        launch_manifest = manifest(workload, "", Launch(run_id=launch, name=launch, facts=PLACEHOLDER_FACTS))
    name = names.object_name(workload, launch, trial_number)
    # A label contains the launch's name, even if the object has another name.
    return max([*WORKLOAD_KINDS[workload.kind].derived_names(launch_manifest, name), launch], key=len)


def check_names(
    workload: Workload, launch: str, trial_number: int | None = None, launch_manifest: Manifest | None = None
) -> None:
    """Raise WorkloadError if the cluster would refuse a launch's name or a name derived from it.

    `launch_manifest`: as in `longest_derived_name`.
    """
    derived_name = longest_derived_name(workload, launch, trial_number, launch_manifest)
    if len(derived_name) > MAX_LABEL_CHARACTERS:
        raise WorkloadError(
            f"workload {workload.name}: its longest derived name would be {derived_name} with {len(derived_name)} "
            f"characters, and Kubernetes allows {MAX_LABEL_CHARACTERS}",
            f"shorten the workload's name by {len(derived_name) - MAX_LABEL_CHARACTERS}",
        )
    service = WORKLOAD_KINDS[workload.kind].service_note
    if service and not _STARTS_WITH_LETTER.match(names.object_name(workload, launch, trial_number)):
        raise WorkloadError(
            f"workload {workload.name}: {service} named after it, so its name must start with a letter",
            "put a letter before the workload's name",
        )
