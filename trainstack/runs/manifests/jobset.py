"""A workload as a JobSet. Source: https://jobset.sigs.k8s.io/docs/concepts/"""

from collections.abc import Iterator

from pydantic import BaseModel

from trainstack.objects.labels import Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.job import job_pods, name_of_pod
from trainstack.runs.manifests.kind import (
    COMPLETION_INDEX_LABEL,
    REPLICATED_JOB_LABEL,
    Body,
    LaunchedPods,
    Replicas,
    RunPodSet,
    WorkloadKind,
    count_jobs,
    explicit_fields,
    role_pod_set,
)
from trainstack.runs.manifests.pod_template import TRAINING_CONTAINER, pod_template
from trainstack.runs.names import object_name
from trainstack.runs.rank_variables import rank_variables
from trainstack.runs.role_pods import RolePods, role_pods
from trainstack.settings.sections.workloads import ReplicatedJob, Workload
from trainstack.settings.values.paths import named_element_paths

API_VERSION = "jobset.x-k8s.io/v1alpha2"


def jobset(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the JobSet, without `suspend`, which Kueue sets."""
    spec: Manifest = {
        "replicatedJobs": [
            _replicated_job(workload, job, pod, launch)
            for job, pod in zip(workload.replicated_jobs, role_pods(workload), strict=True)
        ]
    }
    policies = explicit_fields(workload, "success_policy", "failure_policy", "network")
    spec.update({name: _dump_section(policy) for name, policy in policies.items()})
    spec.update(explicit_fields(workload, "ttl_seconds_after_finished"))
    return launch_object("JobSet", API_VERSION, workload, stack, launch, spec)


def _replicated_job(workload: Workload, job: ReplicatedJob, pod: RolePods, launch: Launch) -> Manifest:
    completions = job.pods_to_succeed
    name = object_name(workload, launch.name, launch.trial_number)
    subdomain = (workload.network.subdomain if workload.network else None) or name
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": job.parallelism,
        "template": pod_template(
            workload,
            pod,
            launch,
            container=TRAINING_CONTAINER,
            restart_policy=pod.restart_policy,
            kind_variables=rank_variables(completions, f"{name}-{job.name}-0-0.{subdomain}")
            if workload.managed
            else (),
        ),
    }
    spec.update(explicit_fields(workload, "backoff_limit", "active_deadline_seconds"))
    if job.backoff_limit is not None:
        spec["backoffLimit"] = job.backoff_limit
    result: Manifest = {"name": job.name, "replicas": job.replicas, "template": {"spec": spec}}
    if job.depends_on:
        result["dependsOn"] = list(map(_dump_section, job.depends_on))
    return result


def _dump_section(section: BaseModel) -> Manifest:
    return section.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def _derived_names(launch: Body, name: str) -> list[str]:
    jobs = launch["spec"]["replicatedJobs"]
    names = [f"{name}-{job['name']}-{job.get('replicas', 1) - 1}" for job in jobs]
    # JobSet makes each Job an Indexed one.
    specs = [{"completionMode": "Indexed", **job["template"]["spec"]} for job in jobs]
    return list(map(name_of_pod, names, specs))


def jobset_pods(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    """Yield the pods of a JobSet or of a TrainingRuntime."""
    jobs = launch["spec"]["replicatedJobs"]
    for path, job in zip(named_element_paths("spec.replicatedJobs", [job["name"] for job in jobs]), jobs, strict=True):
        for pods in job_pods(job["template"]):
            count, template_path = pods.count * job.get("replicas", 1), f"{path}.template.{pods.path}"
            counts = {f"{path}.replicas": job["replicas"]} if "replicas" in job else {}
            yield LaunchedPods(job["name"], count, pods.template, template_path, counts)


def _operator_volumes(launch: Body) -> list[str]:
    """Return the volumes of the claims that JobSet creates by `volumeClaimPolicies`."""
    policies = launch["spec"].get("volumeClaimPolicies") or ()
    return [claim["metadata"]["name"] for policy in policies for claim in policy.get("templates") or ()]


def _pod_sets(path: str, run: Workload) -> Iterator[RunPodSet]:
    jobs = run.replicated_jobs
    for job_path, job in zip(
        named_element_paths(f"{path}.replicatedJobs", [job.name for job in jobs]), jobs, strict=True
    ):
        yield role_pod_set(job_path, path, run, job, job.name, job.pods_at_once)


def _replicas(body: Body) -> tuple[Replicas, ...]:
    replicas_by_job = {job["name"]: job.get("replicas") or 1 for job in body["spec"]["replicatedJobs"]}
    return count_jobs(replicas_by_job, (body.get("status") or {}).get("replicatedJobsStatus"))


JOBSET = WorkloadKind(
    build=jobset,
    derived_names=_derived_names,
    service_note="JobSet gives it a Service",
    launched_pods=jobset_pods,
    pod_sets=_pod_sets,
    api_version=API_VERSION,
    definition="jobsets.jobset.x-k8s.io",
    operator="jobset",
    role_label=REPLICATED_JOB_LABEL,
    index_label=COMPLETION_INDEX_LABEL,
    operator_volumes=_operator_volumes,
    framework="jobset.x-k8s.io/jobset",
    replicas=_replicas,
    managed_by=("spec", "managedBy"),
)
