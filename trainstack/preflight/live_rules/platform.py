"""Rules about the API server, the kinds that it serves, and their operators."""

from collections.abc import Iterator

from semver import Version

from trainstack.preflight import downgrades
from trainstack.preflight.live_context import (
    LiveContext,
    LiveOperator,
    is_operator_declared,
    missing_violation,
    required_operators,
    unread_violation,
)
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rules.operators import find_unmodelled_release, kueue_unmodelled, version_clash
from trainstack.preflight.rules.trainjobs import find_exceeded_limits, trainjob_limit
from trainstack.preflight.version_clashes import find_clashes
from trainstack.runs.status.launch_kinds import kind_of_launch, launch_kind, launch_resource
from trainstack.settings.sections.workloads import with_article
from trainstack.versions import parse_release

_CLIENT_FAULT, _FORBIDDEN, _SERVER_FAULT = 400, 403, 500
_IGNORED_STATUSES = (404, 409)
"""Statuses of a dry run that are no refusal. 404: the kind or the namespace is missing, which another rule reports;
409: the launch already exists."""
_MIN_KUBERNETES_VERSION = Version(1, 29, 0)
"""Oldest Kubernetes version for the Kueue that serves our API version. Source: README of Kueue v0.15 and v0.19."""


@Rule(
    id="server-version",
    summary="The cluster's Kubernetes is older than the Kueue release requires.",
    example="Kubernetes v1.28 and a run with a queue.",
    remedy="Upgrade the cluster, or use another one.",
)
def server_version(context: LiveContext) -> Iterator[Violation]:
    server = parse_release(context.live.version)
    path = required_operators(context.settings).get("kueue")
    if path and server and server < _MIN_KUBERNETES_VERSION:
        message = f"the cluster runs Kubernetes {context.live.version}, but Kueue requires v1.29 or later"
        yield Violation(path, message)


@Rule(
    id="kind-missing",
    may_be=("warning",),
    summary="The cluster does not serve the kind of a run, or Kueue's kinds in version v1beta2.",
    details="A warning if the environment itself installs the operator.",
    example="A PyTorchJob without the CustomResourceDefinition `pytorchjobs.kubeflow.org`.",
    remedy="Have the operator installed, or declare it under `operators` if the settings have it.",
    silenceable=False,
)
def kind_missing(context: LiveContext) -> Iterator[Violation]:
    required: dict[str, tuple[str, str, str | None]] = {}
    for path, run in context.runs():
        kind = launch_kind(run)
        facts = kind_of_launch(kind)
        if definition := ".".join(reversed(launch_resource(run))) if run.object else facts.definition:
            required.setdefault(kind, (f"{path}.kind", definition, facts.operator))
        if run.queue is not None:
            required.setdefault("LocalQueue", (f"{path}.queue", "localqueues.kueue.x-k8s.io", "kueue"))
    for kind in sorted(required.keys() & context.live.unserved):
        path, definition, operator = required[kind]
        yield missing_violation(
            context,
            path,
            f"the cluster does not serve kind {kind} ({definition}) in the required version",
            OPERATORS[operator].remedy(OPERATORS[operator].title) if operator else "have its operator installed",
            is_declared=operator is not None and is_operator_declared(context.settings, operator),
        )


@Rule(
    id="operator-unready",
    may_be=("warning", "unknown"),
    summary="The controller of Kueue, or of the kind of a run, was not found or has no ready pod.",
    details=(
        "Controllers are recognized by the names and labels of Deployments, or by the labels and containers of pods."
    ),
    example="A controller whose image cannot be pulled.",
    remedy=(
        "Read the logs with the command in the message. If the cluster serves the operator's kinds, look for it in "
        "another form before you install a second one."
    ),
)
def operator_unready(context: LiveContext) -> Iterator[Violation]:
    for name, path in required_operators(context.settings).items():
        facts = OPERATORS[name]
        if context.live.operators is None:
            yield unread_violation(context, path, f"{facts.title} is ready", "Deployments and pods")
            continue
        operator = context.live.operators.get(name)
        if operator is None:
            yield _not_found_violation(context, name, path)
        elif not operator.ready:
            problems = f": {'; '.join(operator.problems)}" if operator.problems else ""
            state = "is not ready" if operator.kind == "Pod" else "has no ready pod"
            message = f"{facts.title}, {operator.kind} {operator.namespace}/{operator.name}, {state}{problems}"
            containers = " --all-containers" if operator.kind == "Pod" else ""
            command = f"kubectl logs -n {operator.namespace} {operator.kind.lower()}/{operator.name}{containers}"
            yield Violation(path, message, f"read its logs: {command}")


def _not_found_violation(context: LiveContext, name: str, path: str) -> Violation:
    """Return the violation for an operator that was not recognized; it may run if the cluster serves its kinds."""
    facts, is_declared = OPERATORS[name], is_operator_declared(context.settings, name)
    message = f"no Deployment or pod of {facts.title} was found"
    remedy = facts.remedy("it")
    if (kind := _find_served_kind(context, name)) and not is_declared:
        message += f", although the cluster serves {kind}"
        remedy = f"check whether it runs in another form: kubectl get pods -A; only if it does not, {remedy}"
    return missing_violation(context, path, message, remedy, is_declared=is_declared)


def _find_served_kind(context: LiveContext, name: str) -> str | None:
    """Return a kind of the operator that a run needs and the cluster serves; None if there is none."""
    runs = [run for _, run in context.runs()]
    kinds = {kind for run in runs if kind_of_launch(kind := launch_kind(run)).operator == name}
    if name == "kueue" and any(run.queue is not None for run in runs):
        kinds.add("LocalQueue")
    return min(kinds - context.live.unserved, default=None)


@Rule(
    id="operator-duplicate",
    summary="The environment declares an operator that already runs on the cluster outside a Deployment.",
    details="`up` refuses it, because another owner manages its CRDs.",
    example="`operators.trainingOperator`, and a pod `training-operator-0` of a StatefulSet.",
    remedy="Remove the operator from the settings, and use the one that runs.",
)
def operator_duplicate(context: LiveContext) -> Iterator[Violation]:
    for name, operator in (context.live.operators or {}).items():
        if operator and operator.kind == "Pod" and is_operator_declared(context.settings, name):
            facts = OPERATORS[name]
            message = (
                f"{facts.title} already runs as Pod {operator.namespace}/{operator.name}, outside a Deployment: `up` "
                "would install a second one"
            )
            yield Violation(facts.path, message, f"remove {facts.path} from the settings, and use the one that runs")


@Rule(
    id="operator-version",
    may_be=("warning",),
    summary="A running operator is not the declared or pinned release.",
    details="A warning if its image is not the pinned one; an error if it is newer, as `up` refuses to downgrade it.",
    example="Kueue v0.16 runs, and v0.15.2 is declared.",
    remedy="Run `trainstack up`, or declare the release that runs.",
)
def operator_version(context: LiveContext) -> Iterator[Violation]:
    paths, installs, releases = (
        required_operators(context.settings),
        context.settings.operators.installs,
        _running_releases(context),
    )
    for name, operator in _running_operators(context).items():
        if operator.kind == "Pod":
            continue  # `up` would not replace it; operator_duplicate reports it.
        if name in installs and downgrades.is_older(releases.get(name, ""), installs[name].manifest.version):
            message = (
                f"{OPERATORS[name].title} {releases[name]} runs, but the older {installs[name].manifest.version} is "
                f"declared: {downgrades.DOWNGRADE_RISK}"
            )
            yield Violation(paths[name], message, downgrades.remedy(name, releases[name]))
        elif (
            is_operator_declared(context.settings, name)
            and context.operator_images.get(name, operator.image) != operator.image
        ):
            message = (
                f"{OPERATORS[name].title} runs image {operator.image}, but {context.operator_images[name]} is pinned"
            )
            remedy = f"run `trainstack up -s {context.settings.stack}` to replace it, or pin the image that runs"
            yield Violation(paths[name], message, remedy, "warning")


@version_clash.rule
def version_clash_on_cluster(context: LiveContext) -> Iterator[Violation]:
    installs = context.settings.operators.installs
    releases = _running_releases(context) | {name: install.manifest.version for name, install in installs.items()}
    versions = {name: version for name, text in releases.items() if (version := parse_release(text))}
    for clash in find_clashes(versions, [run for _, run in context.runs()]):
        # version_clash over the files reports a clash of declared operators alone.
        if undeclared_operator := next(
            (name for name in clash.operators if not is_operator_declared(context.settings, name)), None
        ):
            yield Violation(
                required_operators(context.settings)[undeclared_operator], clash.message, clash.remedy, clash.severity
            )


@trainjob_limit.rule
def trainjob_limit_on_cluster(context: LiveContext) -> Iterator[Violation]:
    # trainjob_limit over the files checks against a declared release.
    if not is_operator_declared(context.settings, "trainer"):
        yield from find_exceeded_limits(context, _running_releases(context).get("trainer", ""))


def _running_operators(context: LiveContext) -> dict[str, LiveOperator]:
    """Return the operators that the environment depends on and that were found on the cluster."""
    names = required_operators(context.settings)
    return {name: operator for name, operator in (context.live.operators or {}).items() if operator and name in names}


def _running_releases(context: LiveContext) -> dict[str, str]:
    """Return the releases of running operators, without operators of unknown release."""
    return {name: operator.version for name, operator in _running_operators(context).items() if operator.version}


@kueue_unmodelled.rule
def kueue_unmodelled_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from find_unmodelled_release(required_operators(context.settings).get("kueue", ""), context.verdicts)


@Rule(
    id="webhook-silent",
    summary="A webhook of a run's launch does not answer, so no such object can be created.",
    example='`failed calling webhook "mjob.kb.io"`.',
    remedy="Check the controller's pods: `kubectl get pods -A`.",
    silenceable=False,
)
def webhook_silent(context: LiveContext) -> Iterator[Violation]:
    for answer in context.live.dry_runs:
        if answer.status == 0 or answer.status >= _SERVER_FAULT:
            yield Violation(answer.path, f"a dry run of {with_article(answer.kind)} failed: {answer.message[:300]}")


@Rule(
    id="launch-refused",
    summary="The cluster refuses a run's launch: a right is missing, or a policy or quota rejects it.",
    example="A policy that rejects Jobs without a certain label.",
    remedy="Correct what the message names, or ask the cluster's owner.",
    silenceable=False,
)
def launch_refused(context: LiveContext) -> Iterator[Violation]:
    for answer in context.live.dry_runs:
        if answer.status in _IGNORED_STATUSES or not _CLIENT_FAULT <= answer.status < _SERVER_FAULT:
            continue
        if answer.status == _FORBIDDEN and "cannot create resource" in answer.message:
            message = f"these credentials may not create {with_article(answer.kind)} in namespace {answer.namespace}"
            yield Violation(answer.path, message, "ask the administrator of the namespace for the right")
        else:
            yield Violation(answer.path, f"the cluster refuses its {answer.kind}: {answer.message[:300]}")
