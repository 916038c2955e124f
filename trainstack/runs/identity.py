"""A run's identity: a hash over what would change its result, and nothing else."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from trainstack.objects.labels import Manifest
from trainstack.runs import names
from trainstack.runs.pods import Pod, pods
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.sections.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a launch depends on beside the settings; read from files and git at the edge."""

    image: str
    """The image's reference, with its digest where one is pinned. For an image of this repository the tag names the
    content of its folder, code included."""
    data_digest: str | None
    """The sha256 of the data's committed manifest; None for a workload without `data`."""
    wrapper: str
    """The name of the ConfigMap with the wrapper."""
    parameters: Mapping[str, Value] | None = None
    """The set of a trial of a sweep; None for a run. The program may have it from a file, of which its arguments tell
    nothing."""
    git_image: str | None = None
    """What checks `code` out; None: there is none."""
    commit: str
    """The commit that the run is recorded with. It names no launch: an unrelated commit changes nothing."""


class Unknown(str):
    """A value that only an image build or a file gives. No object that is sent to a cluster contains one."""

    __slots__ = ()


UNKNOWN_FACTS = Facts(image=Unknown("-"), data_digest=None, wrapper=Unknown("-"), git_image=Unknown("-"), commit="")
"""For what does not depend on the facts: the shape of a launch, and whether Kueue admits it."""


def run_id(workload: Workload, facts: Facts) -> str:
    """The run's id, `<workload>-<10 hex>`."""
    return names.run_id(workload.name, digest(identity(workload, facts)))


def identity(workload: Workload, facts: Facts) -> Manifest:
    """What would change a run's result.

    kind          whether, and by which protocol, its processes work together
    image         libraries; for an image of this repository also the code, by its tag; for one that is pinned its
                  digest, since a tag that moved is other content
    command       the program
    workingDir    which files the program finds by relative paths
    pods          for each role: how many (the world size, or a Job's completions), arguments and environment; the
                  command of Jobs of a JobSet that have their own
    secretEnv     variables from Secrets, by where the values stand; only where there are some
    code          the repository and the commit, in whatever way it is reached; only where there is some
    data          the digest of the data's manifest
    seed          where chance begins
    elastic       where it is elastic: the least and the most workers
    parameters    of a trial: its set, by whatever way it reaches the program
    nprocPerNode  where it is given: processes in each pod
    attempt       the wish to train again what was trained

    Not in it, because the result stays the same: cpu, memory and shared memory, queue and priority, names, labels and
    annotations, node selectors and tolerations, security, deadlines, TTL and retries, the places of volumes, code,
    data and record (arguments name those that matter), the version of the wrapper, the commit.
    """
    result: Manifest = {
        "kind": workload.kind,
        "image": _content(facts.image) if workload.image.build is not None else facts.image,
        "command": list(workload.command),
        "workingDir": workload.working_dir,
        "pods": {pod.role: _identity_of(workload, pod) for pod in pods(workload)},
        "data": facts.data_digest,
        "seed": workload.seed,
        "attempt": workload.attempt,
    }
    # Absent, not None: the runs that there were before there were these keep their ids.
    if workload.secret_env:
        result["secretEnv"] = {name: [value.secret, value.key] for name, value in workload.secret_env.items()}
    if workload.code is not None:
        result["code"] = {"git": workload.code.repository, "revision": workload.code.revision}
    if facts.parameters is not None:
        result["parameters"] = dict(facts.parameters)
    if workload.elastic is not None:
        result["elastic"] = [workload.elastic.min_replicas, workload.elastic.max_replicas]
    if workload.nproc_per_node is not None:
        result["nprocPerNode"] = workload.nproc_per_node
    if workload.replicated_jobs:
        result["jobs"] = {
            job.name: {
                "counts": [job.replicas, job.completions or job.parallelism],
                "after": [[each.name, each.status] for each in job.depends_on],
            }
            for job in workload.replicated_jobs
        }
    if workload.success_policy is not None:
        policy = workload.success_policy
        result["successPolicy"] = [policy.operator, sorted(policy.target_replicated_jobs)]
    return result


def _identity_of(workload: Workload, pod: Pod) -> Manifest:
    own = {} if pod.command == workload.command else {"command": list(pod.command)}
    return {"replicas": pod.replicas, "args": list(pod.args), "env": dict(pod.env), **own}


def _content(reference: str) -> str:
    """Name and tag of an image of this repository: the same content wherever the registry is, pinned or not."""
    return reference.partition("@")[0].rpartition("/")[2]


def canonical(value: object) -> str:
    """JSON in one spelling: keys sorted, no spaces, plain ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """The sha256, in hexadecimal, of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
