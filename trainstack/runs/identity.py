"""A run's identity: a hash of everything that would change its result."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainstack.objects.labels import Manifest
from trainstack.runs import names
from trainstack.runs.role_pods import RolePods, role_pods
from trainstack.settings.search_space.space import ParameterSet
from trainstack.settings.sections.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The inputs of a launch that are not settings but read from files and from git."""

    image: str
    """The image reference, with a digest if one is pinned. The tag of an image of this repository is a digest of its
    folder, including the code."""
    data_digest: str | None
    """The sha256 of the data's committed manifest; None for a workload without `data`."""
    wrapper: str
    """The name of the wrapper's ConfigMap."""
    parameter_set: ParameterSet | None = None
    """The parameter set of a trial; None for a run. It is part of the identity because the program may read it from a
    file instead of its arguments."""
    pinned_images: Mapping[str, str] = field(default_factory=dict)
    """Of a workload with a manifest: the references with digests of the images that are pinned."""
    git_image: str | None = None
    """The image that checks out `code`; None if it is not known."""
    commit: str
    """The commit recorded with the run. It is not part of the launch name: an unrelated commit changes nothing."""


class Placeholder(str):
    """A placeholder for a value from an image build or a file. Objects that are sent to a cluster never contain one."""

    __slots__ = ()


PLACEHOLDER_FACTS = Facts(
    image=Placeholder("-"), data_digest=None, wrapper=Placeholder("-"), git_image=Placeholder("-"), commit=""
)
"""Placeholder facts for code that does not depend on them, such as the simulation of admission by Kueue."""


_PROGRAM_FIELDS = ("image", "command", "args", "workingDir", "env", "envFrom")
"""The fields of a container that may change a result."""


def run_id(workload: Workload, facts: Facts) -> str:
    # The name of a sweep is never shortened, since trials are found by it.
    prefix = names.run_prefix(workload) if facts.parameter_set is None else workload.name
    inputs = identity(workload, facts)
    # Two workloads may have names with the same beginning.
    return names.run_id(prefix, digest(inputs if prefix == workload.name else {**inputs, "name": workload.name}))


def identity(workload: Workload, facts: Facts) -> Manifest:
    """Return the inputs that affect a run's result."""
    if workload.manifest is not None:
        return _identity_of_manifest(workload, workload.manifest, facts)
    return _identity_of_settings(workload, facts)


def _identity_of_settings(workload: Workload, facts: Facts) -> Manifest:
    """Return the inputs that affect the result of a run whose object is built from settings.

    kind          whether, and by which protocol, its processes work together
    image         libraries; for an image of this repository also the code, by its tag; for a pinned image the
                  digest, because a tag can be moved to other content
    command       the program
    workingDir    which files the program finds by relative paths
    pods          for each role: how many (the world size, or a Job's completions, which are its parallelism if unset),
                  arguments and environment; the command of Jobs of a JobSet that have their own
    secretEnv     variables from Secrets, by Secret name and key; only if there are any; also fieldEnv and envFrom
    code          the repository, independent of the protocol, and the commit; only if there is any
    data          the digest of the data's manifest
    seed          the random seed
    object        of a kind Object: its kind and the spec around its pods
    runtime       the name of the cluster's runtime, if any; its content is not known
    elastic       of an elastic run: the minimum and maximum number of workers
    parameters    of a trial: its set, however the program receives it
    nprocPerNode  processes per pod, if set; also slotsPerWorker, and completionMode of a Job that is not managed
    runtimeEnv    of a RayJob: runtimeEnvYAML; also rayStartParams by role; only if they are set
    podPatch      images of containers and volumes, programs and variables that it sets, if any; `podPatches` by role if
                  they differ
    attempt       raised to train again

    Excluded, because they do not change the result: cpu, memory and shared memory, queue and priority, names, labels
    and annotations, node selectors, affinity, tolerations and topology requests, scratch volumes, security and the
    node's network, deadlines, TTL and retries, the mount paths of volumes, code, data and record (arguments contain the
    relevant ones), the version of the wrapper, the commit.
    """
    result: Manifest = {
        "kind": workload.kind,
        "image": _name_and_tag(facts.image) if workload.image.build is not None else facts.image,
        "command": list(workload.command),
        "workingDir": workload.working_dir,
        "pods": {pod.role: _pod_identity(workload, pod) for pod in role_pods(workload)},
        "data": facts.data_digest,
        "seed": workload.seed,
        "attempt": workload.attempt,
    }
    # These fields are absent if unset, so that runs that were launched before the fields existed keep their ids.
    result |= _referenced_variables(workload)
    if workload.code is not None:
        result["code"] = {"git": workload.code.repository, "revision": workload.code.revision}
    if facts.parameter_set is not None:
        result["parameters"] = dict(facts.parameter_set.parameters)
    if workload.object is not None:
        result["object"] = [workload.object.api_version, workload.object.kind, workload.object.spec]
    if workload.runtime is not None:
        result["runtime"] = workload.runtime
    if workload.elastic is not None:
        result["elastic"] = [workload.elastic.min_replicas, workload.elastic.max_replicas]
    result |= _kind_fields(workload)
    result |= _patch_identity(workload)
    if workload.replicated_jobs:
        result["jobs"] = {
            job.name: {
                "counts": [job.replicas, job.pods_to_succeed],
                "after": [[dependency.name, dependency.status] for dependency in job.depends_on],
            }
            for job in workload.replicated_jobs
        }
    if workload.success_policy is not None:
        policy = workload.success_policy
        result["successPolicy"] = [policy.operator, sorted(policy.target_replicated_jobs)]
    return result


def _kind_fields(workload: Workload) -> Manifest:
    """Return the fields of kinds that affect a result, as far as they are set."""
    fields: Manifest = {
        "nprocPerNode": workload.nproc_per_node,
        "slotsPerWorker": workload.slots_per_worker,
        "completionMode": workload.completion_mode,
        "runtimeEnv": workload.runtime_env_yaml,
        "rayStartParams": {
            name: dict(role.ray_start_params) for name, role in workload.roles.items() if role.ray_start_params
        }
        or None,
    }
    return {field: value for field, value in fields.items() if value is not None}


def _referenced_variables(workload: Workload) -> Manifest:
    """Return the references of variables whose values the settings do not contain."""
    references: Manifest = {
        "secretEnv": {name: [value.secret, value.key] for name, value in workload.secret_env.items()},
        "fieldEnv": dict(workload.field_env),
        "envFrom": [[source.secret, source.config_map, source.prefix] for source in workload.env_from],
    }
    return {field: value for field, value in references.items() if value}


def _pod_identity(workload: Workload, pod: RolePods) -> Manifest:
    command_field = {} if pod.command == workload.command else {"command": list(pod.command)}
    return {"replicas": pod.replicas, "args": list(pod.args), "env": dict(pod.env), **command_field}


def _patch_identity(workload: Workload) -> Manifest:
    programs_by_role = {pod.role: _programs_of_patch(pod.pod_patch) for pod in role_pods(workload)}
    first_programs, *other_programs = programs_by_role.values()
    if any(programs != first_programs for programs in other_programs):
        return {"podPatches": programs_by_role}
    return {"podPatch": first_programs} if first_programs else {}


def _programs_of_patch(patch: Mapping[str, Any] | None) -> Manifest:
    programs = _programs_of_pod((patch or {}).get("spec", {}), {})
    return {name: program for name, program in programs.items() if program}


_NEUTRAL_FIELDS = frozenset(
    {
        *("metadata", "labels", "annotations", "resources", "resourcesPerNode", "restartPolicy"),
        *("suspend", "managedBy", "runPolicy", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes"),
        *("podFailurePolicy", "podReplacementPolicy", "failurePolicy", "activeDeadlineSeconds", "retryPolicy"),
        *("ttlSecondsAfterFinished", "shutdownAfterJobFinishes", "podTemplateOverrides", "manualSelector", "selector"),
    }
)
"""The fields of a manifest, outside its containers, that do not change a result."""


def _identity_of_manifest(workload: Workload, manifest: Mapping[str, Any], facts: Facts) -> Manifest:
    """Return the inputs of a run whose workload is a manifest, as `identity` does."""
    result: Manifest = {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "spec": _without_neutral_fields(manifest["spec"], facts.pinned_images),
        "data": facts.data_digest,
        "seed": workload.seed,
        "attempt": workload.attempt,
    }
    if facts.parameter_set is not None:
        result["parameters"] = dict(facts.parameter_set.parameters)
    if patch_programs := _programs_of_patch(workload.pod_patch):
        result["podPatch"] = patch_programs
    return result


def _without_neutral_fields(value: Any, pinned_images: Mapping[str, str]) -> Any:
    """Return a value of a manifest without what does not change a result.

    Of a pod, wherever it is, only programs and images remain.
    """
    if isinstance(value, list):
        return [_without_neutral_fields(item, pinned_images) for item in value]
    if not isinstance(value, Mapping):
        return value
    if isinstance(value.get("containers"), list):
        return {"pod": _programs_of_pod(value, pinned_images)}
    return {
        key: _without_neutral_fields(item, pinned_images) for key, item in value.items() if key not in _NEUTRAL_FIELDS
    }


def _programs_of_pod(spec: Mapping[str, Any], pinned_images: Mapping[str, str]) -> Manifest:
    programs: Manifest = {}
    for field_name in ("initContainers", "containers"):
        for container in spec.get(field_name) or ():
            program = {key: container[key] for key in _PROGRAM_FIELDS if key in container}
            if "image" in program:
                program["image"] = pinned_images.get(program["image"], program["image"])
            programs[f"{field_name}/{container.get('name', '')}"] = program
    for volume in spec.get("volumes") or ():
        if reference := (volume.get("image") or {}).get("reference"):
            programs[f"volumes/{volume.get('name', '')}"] = {"image": reference}
    return programs


def _name_and_tag(reference: str) -> str:
    """Return the name and tag of an image of this repository, without its registry and digest."""
    return reference.partition("@")[0].rpartition("/")[2]


def canonical(value: object) -> str:
    """Return canonical JSON: sorted keys, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """Return the hexadecimal SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
