"""Rules about MultiKueue: its restrictions, and objects that it does not copy to worker clusters.

Sources: updateWithAdmissionChecks in Kueue's pkg/cache/scheduler/clusterqueue.go, ConfigFromRef in
pkg/util/admissioncheck, and the adapters of pkg/controller/jobs.
"""

from collections.abc import Iterator

from trainstack.kueue.differences import release_of
from trainstack.kueue.releases import release_from_settings
from trainstack.preflight.examples import yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, with_paths
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.runs.parameter_file import TooManySetsError, check_annotation_size
from trainstack.runs.status.launch_kinds import display_kind
from trainstack.settings.sections.queues import PROVISIONING_CONTROLLER
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import with_article

_REMEDIES_BY_KIND = {
    "TrainJob": "set kind to PyTorchJob or JobSet, which need no TrainingRuntime, or use another queue",
    "Pod": "set kind to Job, or use another queue",
}
"""Remedies by kind, for kinds that another kind can replace."""


@Rule(
    id="multikueue-checks",
    may_be=("warning",),
    summary="A cluster queue has two admission checks of MultiKueue, or one for some flavors only.",
    details="Kueue keeps the queue inactive; since v0.16 also one with a check of ProvisioningRequest.",
    example="Two `admissionChecks` whose `controllerName` is `kueue.x-k8s.io/multikueue`, or one with `onFlavors`.",
    remedy="Keep one check, without `onFlavors`; its MultiKueueConfig lists up to ten clusters.",
    silenceable=False,
)
def multikueue_checks(context: RuleContext) -> Iterator[Violation]:
    queues = context.settings.queues
    release = release_of(release_from_settings(context.settings))
    provisioning = {check.name for check in queues.admission_checks if check.controller_name == PROVISIONING_CONTROLLER}
    for path, queue in context.cluster_queues():
        names = [check.name for check in queues.multi_kueue_checks(queue)]
        if len(names) > 1:
            message = f"cluster queue {queue.name} has {len(names)} checks of MultiKueue: {', '.join(names)}"
            yield Violation(f"{path}.admissionChecks", message)
        # An unknown release has no minor: v0.16 and later keep such a queue inactive, so it is a warning.
        provisioning_names = sorted(provisioning.intersection(check.name for check in queue.admission_checks))
        if names and provisioning_names and (release.dispatches_or_provisions or not release.minor):
            message = (
                f"cluster queue {queue.name} has checks of MultiKueue and ProvisioningRequest: {names[0]}, "
                f"{provisioning_names[0]}"
            )
            if not release.minor:
                message += "; since v0.16 Kueue keeps it inactive"
            yield Violation(f"{path}.admissionChecks", message, severity=None if release.minor else "warning")
        for check_path, check in with_paths(f"{path}.admissionChecks", queue.admission_checks):
            if check.name in names and check.on_flavors:
                message = f"check {check.name} of MultiKueue is limited to flavors {', '.join(check.on_flavors)}"
                yield Violation(f"{check_path}.onFlavors", message)


@Rule(
    id="multikueue-parameters",
    summary="An admission check of MultiKueue does not name a MultiKueueConfig.",
    details="The check is inactive, and so are its queues.",
    change=yaml_at("queues.admissionChecks", "- {name: elsewhere, controllerName: kueue.x-k8s.io/multikueue}"),
    remedy="Set `parameters: {kind: MultiKueueConfig, name: …}`.",
    silenceable=False,
)
def multikueue_parameters(context: RuleContext) -> Iterator[Violation]:
    for path, check in with_paths("queues.admissionChecks", context.settings.queues.admission_checks):
        if not check.is_multi_kueue_check:
            continue
        parameters = check.parameters
        if parameters is None:
            yield Violation(path, f"check {check.name} of MultiKueue has no parameters")
        elif (parameters.kind, parameters.api_group) != ("MultiKueueConfig", "kueue.x-k8s.io"):
            kind = f"{parameters.kind} of {parameters.api_group}"
            yield Violation(f"{path}.parameters.kind", f"the parameters of check {check.name} are a {kind}")


@Rule(
    id="multikueue-run",
    may_be=("warning",),
    summary="A run or loader in a queue of MultiKueue cannot be dispatched to another cluster.",
    details=(
        "Trainstack dispatches Jobs, JobSets and PyTorchJobs, also of sweeps, whose pods have the parameter file as "
        "annotations: at most 240 KiB. MultiKueue does not copy the TrainingRuntime of a TrainJob. A warning for a "
        "sweep of `managed: false`."
    ),
    example="A run of `kind: TrainJob` whose cluster queue has a check of MultiKueue.",
    remedy="Use a queue without a check of MultiKueue, or another `kind`.",
)
def multikueue_run(context: RuleContext) -> Iterator[Violation]:
    settings = context.settings
    for path, run in settings.runs_and_trials():
        if not settings.queues.is_dispatched(run.namespace, run.queue):
            continue
        if WORKLOAD_KINDS[run.kind].managed_by is None:
            kind = with_article(display_kind(run))
            yield Violation(
                f"{path}.queue", f"{run.name} is {kind}, which is not dispatched", _REMEDIES_BY_KIND.get(run.kind)
            )
    for path, sweep in context.sweeps():
        if settings.queues.is_dispatched(sweep.run.namespace, sweep.run.queue):
            yield from _sweep_violations(path, sweep)
    queue, namespaces = settings.cluster.loader.queue, settings.volume_namespaces
    for namespace in sorted(namespaces):
        if settings.queues.is_dispatched(namespace, queue):
            message = f"loaders of namespace {namespace} would start in a worker cluster, with its volume"
            yield Violation("cluster.loader.queue", message, "use a queue without a check of MultiKueue")
            break


def _sweep_violations(path: str, sweep: Sweep) -> Iterator[Violation]:
    try:
        check_annotation_size(sweep)
    except TooManySetsError as error:
        yield Violation(path, error.message, error.remedy)
    if not sweep.run.managed:
        message = (
            f"the results of sweep {sweep.name} are in the logs of its pods, which MultiKueue deletes when a trial ends"
        )
        remedy = "leave out `managed`, or have the program save its results elsewhere"
        yield Violation(f"{path}.run.managed", message, remedy, "warning")


@Rule(
    id="receives-incomplete",
    severity="warning",
    summary="The `receives` of a worker cluster's environment names a namespace without a local queue or volume.",
    details=(
        "Dispatched runs need the namespace, local queue, volumes, Secrets and images of the same names in the worker "
        "cluster. MultiKueue does not create them ([0021](decisions/0021-multikueue.md))."
    ),
    change=yaml_at("workloads", "receives: [default]"),
    remedy="Declare the local queue and volumes there, or remove the namespace from `receives`.",
)
def receives_incomplete(context: RuleContext) -> Iterator[Violation]:
    settings = context.settings
    if not context.owns_platform:
        return
    for index, namespace in enumerate(settings.workloads.receives):
        missing = [
            subject
            for subject, namespaces in (
                ("local queue", [queue.namespace for queue in settings.queues.local_queues]),
                ("volume", settings.volume_namespaces),
            )
            if namespace not in namespaces
        ]
        if missing:
            message = f"namespace {namespace} receives runs, but has no {' and no '.join(missing)}"
            yield Violation(f"workloads.receives[{index}]", message)
