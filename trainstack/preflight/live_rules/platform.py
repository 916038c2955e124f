"""The API server, the kinds that it serves, and the operators behind them."""

import re
from collections.abc import Iterator

from trainstack.preflight import downgrades
from trainstack.preflight.live_context import OPERATORS, LiveScene, Operator, absent, declared, needed, unknown
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rules.operators import version_clash
from trainstack.preflight.versions import clashes, version
from trainstack.runs.status.kinds import KINDS, launched_as

_TAG = re.compile(r":(v?\d+\.\d+\.\d+[^@]*)(?:@.*)?$")
_CLIENT_FAULT, _FORBIDDEN, _SERVER_FAULT = 400, 403, 500
_FINE = (404, 409)
"""There is no such kind or namespace, which is another rule's; the launch exists already."""
_KUEUE_NEEDS = (1, 29, 0)
"""Kubernetes, for the Kueue that serves our API version. Source: Kueue v0.15's README."""


@Rule(
    id="server-version",
    severity="error",
    summary="The cluster's Kubernetes is older than the Kueue release requires.",
    example="Kubernetes v1.28 and a run with a queue.",
    remedy="Upgrade the cluster, or use another one.",
)
def server_version(scene: LiveScene) -> Iterator[Violation]:
    found = version(scene.live.version)
    path = needed(scene.settings).get("kueue")
    if path and found and found < _KUEUE_NEEDS:
        message = f"the cluster is Kubernetes {scene.live.version}; Kueue v0.15 needs v1.29 or newer"
        yield Violation(path, message, "upgrade the cluster, or use another")


@Rule(
    id="kind-missing",
    severity="error",
    may_be=("warning",),
    summary="The cluster does not serve the kind of a run, or Kueue's kinds in version v1beta2.",
    details="A warning if the environment itself installs the operator: `up` adds the kind.",
    example="A PyTorchJob on a cluster without the CustomResourceDefinition `pytorchjobs.kubeflow.org`.",
    remedy="Ask the cluster's owner to install the operator, or declare it under `operators`.",
    silenceable=False,
)
def kind_missing(scene: LiveScene) -> Iterator[Violation]:
    wanted: dict[str, tuple[str, str, str]] = {}
    for path, run in scene.runs():
        kind = launched_as(run)
        facts = KINDS[kind]
        if facts.definition and facts.operator:
            wanted.setdefault(kind, (f"{path}.kind", facts.definition, facts.operator))
        if run.queue is not None:
            wanted.setdefault("LocalQueue", (f"{path}.queue", "localqueues.kueue.x-k8s.io", "kueue"))
    for kind in sorted(wanted.keys() & scene.live.unserved):
        path, definition, operator = wanted[kind]
        yield absent(
            path,
            f"the cluster does not have the kind {kind} ({definition}, in the version that is used here)",
            f"have {OPERATORS[operator].title} installed, or declare {OPERATORS[operator].path}",
            own=declared(scene.settings, operator),
            stack=scene.settings.stack,
        )


@Rule(
    id="operator-unready",
    severity="error",
    may_be=(
        "warning",
        "unknown",
    ),
    summary="The controller of Kueue, the training operator, JobSet or Trainer was not found, or has no ready pod.",
    details=(
        "Trainstack recognizes a controller by the name and labels of its Deployment. If something else owns the "
        "pods, such as a StatefulSet, it recognizes their labels and the image or name of a container."
    ),
    example="A controller whose image cannot be pulled.",
    remedy=(
        "Read the logs with the `kubectl logs` command of the message. If nothing was found and the cluster serves "
        "the operator's kinds, look for the operator before you install a second one."
    ),
)
def operator_unready(scene: LiveScene) -> Iterator[Violation]:
    for name, path in needed(scene.settings).items():
        facts = OPERATORS[name]
        if scene.live.operators is None:
            yield unknown(path, f"whether {facts.title} is well: Deployments and pods")
            continue
        found = scene.live.operators.get(name)
        if found is None:
            yield _not_found(scene, name, path)
        elif not found.ready:
            why = f": {'; '.join(found.problems)}" if found.problems else ""
            lacks = "is not ready" if found.kind == "Pod" else "has no ready pod"
            message = f"{facts.title}, {found.kind} {found.namespace}/{found.name}, {lacks}{why}"
            remedy = f"see why: kubectl logs -n {found.namespace} {found.kind.lower()}/{found.name}"
            containers = " --all-containers" if found.kind == "Pod" else ""
            yield Violation(path, message, remedy + containers)


def _not_found(scene: LiveScene, name: str, path: str) -> Violation:
    """Neither a Deployment nor a pod is recognized; where the cluster serves its kinds, the operator may run anyway."""
    facts, own = OPERATORS[name], declared(scene.settings, name)
    message = f"no Deployment or pod of {facts.title} is found"
    remedy = f"have it installed, or declare {facts.path}"
    if (kind := _served(scene, name)) and not own:
        message += f", although the cluster serves {kind}"
        remedy = f"see whether it runs in another form: kubectl get pods -A; only if it does not, {remedy}"
    return absent(path, message, remedy, own=own, stack=scene.settings.stack)


def _served(scene: LiveScene, name: str) -> str | None:
    """A kind of the operator's that a run needs, and that the cluster serves."""
    runs = [run for _, run in scene.runs()]
    kinds = {kind for run in runs if KINDS[kind := launched_as(run)].operator == name}
    if name == "kueue" and any(run.queue is not None for run in runs):
        kinds.add("LocalQueue")
    return min(kinds - scene.live.unserved, default=None)


@Rule(
    id="operator-duplicate",
    severity="error",
    summary="The environment declares an operator that already runs on the cluster, but not as a Deployment.",
    details="`up` refuses it, because another owner manages the definitions of its kinds.",
    example="`operators.trainingOperator` on a cluster whose pod `training-operator-0` belongs to a StatefulSet.",
    remedy="Remove the operator from the settings, and use the one that runs.",
)
def operator_duplicate(scene: LiveScene) -> Iterator[Violation]:
    for name, found in (scene.live.operators or {}).items():
        if found and found.kind == "Pod" and declared(scene.settings, name):
            facts = OPERATORS[name]
            message = (
                f"{facts.title} runs already, as Pod {found.namespace}/{found.name}, which is no pod of a Deployment: "
                "`up` would install a second one"
            )
            remedy = f"remove {facts.path} from the settings, and use the one that runs"
            yield Violation(facts.path, message, remedy)


@Rule(
    id="operator-version",
    severity="error",
    may_be=("warning",),
    summary="A running operator is not the declared or pinned release.",
    details=(
        "A warning if its image is not the pinned one. An error if a newer release than the declared one runs: `up` "
        "refuses to downgrade it."
    ),
    example="Kueue v0.16 runs, and v0.15.2 is declared.",
    remedy="Run `trainstack up` to install the pinned release, or declare the release that runs.",
)
def operator_version(scene: LiveScene) -> Iterator[Violation]:
    wanted, installs, releases = needed(scene.settings), scene.settings.operators.installs, _releases(scene)
    for name, found in _running(scene).items():
        if found.kind == "Pod":
            continue  # `up` would not replace it: operator_duplicate.
        if name in installs and downgrades.older(releases.get(name, ""), installs[name].manifest.version):
            message = (
                f"{OPERATORS[name].title} {releases[name]} runs, and the older {installs[name].manifest.version} is"
                f" declared: {downgrades.WHY}"
            )
            remedy = downgrades.remedy(name, releases[name])
            yield Violation(wanted[name], message, remedy)
        elif declared(scene.settings, name) and scene.images.get(name, found.image) != found.image:
            message = f"{OPERATORS[name].title} runs as {found.image}, and {scene.images[name]} is pinned"
            remedy = f"trainstack up -s {scene.settings.stack} changes it; or pin what runs"
            yield Violation(wanted[name], message, remedy, "warning")


@version_clash.rule
def version_clash_on_cluster(scene: LiveScene) -> Iterator[Violation]:
    installs = scene.settings.operators.installs
    releases = _releases(scene) | {name: install.manifest.version for name, install in installs.items()}
    versions = {name: numbers for name, text in releases.items() if (numbers := version(text))}
    for clash in clashes(versions, [run for _, run in scene.runs()]):
        # Where all of them are declared, the files show it.
        if first := next((name for name in clash.operators if not declared(scene.settings, name)), None):
            yield Violation(needed(scene.settings)[first], clash.message, clash.remedy, clash.severity)


def _running(scene: LiveScene) -> dict[str, Operator]:
    """The controllers that were found, of those that the environment depends on."""
    wanted = needed(scene.settings)
    return {name: found for name, found in (scene.live.operators or {}).items() if found and name in wanted}


def _releases(scene: LiveScene) -> dict[str, str]:
    """Their releases, by label or else by the image's tag, as far as these are releases."""
    running = _running(scene)
    tags = {name: tag[1] for name, found in running.items() if (tag := _TAG.search(found.image))}
    return tags | {name: found.release for name, found in running.items() if version(found.release)}


@Rule(
    id="webhook-silent",
    severity="error",
    summary="A webhook that a run's launch passes through does not answer.",
    details="No object of that kind can be created.",
    example='`failed calling webhook "mjob.kb.io"`.',
    remedy="Check the pods of the controller that the message names.",
    silenceable=False,
)
def webhook_silent(scene: LiveScene) -> Iterator[Violation]:
    for each in scene.live.dry_runs:
        if each.status == 0 or each.status >= _SERVER_FAULT:
            message = f"a dry run of a {each.kind} was not answered: {each.message[:300]}"
            remedy = "see the controller that the message names: kubectl get pods -A"
            yield Violation(each.path, message, remedy)


@Rule(
    id="launch-refused",
    severity="error",
    summary="The cluster refuses a run's launch.",
    details="The credentials lack the right, or a policy or quota of the cluster rejects the object.",
    example="A policy that rejects Jobs without a certain label.",
    remedy="Correct what the message names, or ask the administrator of the namespace.",
    silenceable=False,
)
def launch_refused(scene: LiveScene) -> Iterator[Violation]:
    for each in scene.live.dry_runs:
        if each.status in _FINE or not _CLIENT_FAULT <= each.status < _SERVER_FAULT:
            continue
        if each.status == _FORBIDDEN and "cannot create resource" in each.message:
            message = f"these credentials may not create a {each.kind} in namespace {each.namespace}"
            remedy = "who administers the namespace can grant it"
        else:
            message = f"the cluster refuses its {each.kind}: {each.message[:300]}"
            remedy = "correct what the message names, or ask the cluster's owner about that rule"
        yield Violation(each.path, message, remedy)


RULES: tuple[Check[LiveScene], ...] = (
    server_version,
    kind_missing,
    operator_unready,
    operator_duplicate,
    operator_version,
    version_clash_on_cluster,
    webhook_silent,
    launch_refused,
)
