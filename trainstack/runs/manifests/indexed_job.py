"""Many trials of a sweep as one Indexed Job, in which each completion index is a run.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/ (backoff limit per index, pod failure policy,
success policy)
"""

from trainstack.objects.labels import SKIP_AWAIT, Manifest
from trainstack.runs import names
from trainstack.runs.identity import digest
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.kind import explicit_fields
from trainstack.runs.manifests.pod_template import TRAINING_CONTAINER, pod_template
from trainstack.runs.role_pods import role_pods
from trainstack.settings.sections.sweeps import Sweep

TARGET_MISSED_EXIT_CODE = 79
"""The wrapper's exit code for a finished trial that has missed the sweep's target."""
_IGNORE_DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
"""The rule by which a disrupted pod does not count as an attempt of its trial."""
_FAIL_MISSED_TARGET = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [TARGET_MISSED_EXIT_CODE]}}


def batch_job(sweep: Sweep, stack: str, launch: Launch, count: int) -> Manifest:
    """Return the Job of `count` trials, without `suspend`, which Kueue sets. Raises WorkloadError.

    The launch's parameter file lists the trials; the Job itself does not depend on them.
    """
    run = sweep.run
    (pod,) = role_pods(run)
    template = pod_template(run, pod, launch, container=TRAINING_CONTAINER, restart_policy=run.restart_policy)
    template["spec"].update(explicit_fields(run, "active_deadline_seconds"))
    target = sweep.space.objective.target
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": min(sweep.parallelism or count, count),
        "backoffLimitPerIndex": run.backoff_limit,
        "podFailurePolicy": {
            "rules": [_IGNORE_DISRUPTION] if target is None else [_IGNORE_DISRUPTION, _FAIL_MISSED_TARGET]
        },
        "template": template,
        **explicit_fields(run, "ttl_seconds_after_finished"),
    }
    if sweep.max_failed_indexes is not None:
        # The API server requires maxFailedIndexes <= completions.
        spec["maxFailedIndexes"] = min(sweep.max_failed_indexes, count)
    if target is not None:
        # Trials that miss the target fail their index, so the first success ends the Job.
        spec["successPolicy"] = {"rules": [{"succeededCount": 1}]}
    if sweep.active_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = sweep.active_deadline_seconds
    return launch_object("Job", "batch/v1", run, stack, launch, spec, {SKIP_AWAIT: "true"})


def batch_id(sweep: str, run_ids: tuple[str, ...]) -> str:
    """Return the id of a batch, which takes the place of a run id."""
    return names.run_id(sweep, digest(list(run_ids)))
