"""Rules about pods that a namespace would refuse, or whose connections it blocks."""

from collections.abc import Iterator, Mapping

from trainstack.objects.labels import POD_SECURITY
from trainstack.platform.namespaces import enforced
from trainstack.preflight.examples import digits
from trainstack.preflight.pod_security import Refusal, refusals
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import Context, RuleContext
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.status.kinds import kind_of_launch, launched_as
from trainstack.settings.sections.workloads import Workload


@Rule(
    id="pods-refused",
    summary="A run has `security: baseline` in a namespace that enforces `restricted`, the default.",
    change=digits("security: baseline"),
    remedy="Remove `security`, or set the namespace's label `pod-security.kubernetes.io/enforce: baseline`.",
)
def pods_refused(context: RuleContext) -> Iterator[Violation]:
    namespaces = context.settings.environment.namespaces
    strict = {namespace.name for namespace in namespaces if enforced(namespace) == "restricted"}
    for path, run in context.runs():
        if run.security == "baseline" and run.namespace in strict:
            message = f"namespace {run.namespace} enforces Pod Security restricted and refuses baseline pods"
            remedy = f"remove security, or set the namespace's label {POD_SECURITY}enforce: baseline"
            yield Violation(f"{path}.security", message, remedy)


@Rule(
    id="pods-forbidden",
    summary="The `capabilities`, `hostNetwork` or `podPatch` of a run need a lower Pod Security level.",
    details=(
        "The namespace would refuse the pods, and the run would hold quota without them. The level of a namespace that "
        "the stack did not create is read from the cluster."
    ),
    change=digits("capabilities: {add: [IPC_LOCK]}"),
    remedy="Remove the setting, or have the namespace enforce the level that the message names.",
)
def pods_forbidden(context: RuleContext) -> Iterator[Violation]:
    levels = {namespace.name: enforced(namespace) for namespace in context.settings.environment.namespaces}
    yield from forbidden(context, levels)


def forbidden(context: Context, levels: Mapping[str, str]) -> Iterator[Violation]:
    """Yield the settings of runs that their namespace forbids.

    `levels`: the enforced Pod Security level of each namespace, as far as it is known.
    """
    for path, run in context.runs():
        level = levels.get(run.namespace, "")
        if run.security == "baseline" and level == "restricted":
            level = "baseline"  # pods-refused reports the rest.
        for refusal in _refusals(context, run, level):
            message = f"{refusal.problem}: namespace {run.namespace} enforces Pod Security {levels[run.namespace]}"
            needed = "privileged" if refusal.level == "baseline" else "baseline"
            remedy = f"{refusal.remedy}, or set the namespace's label {POD_SECURITY}enforce: {needed}"
            yield Violation(f"{path}.{_setting(run, refusal.path)}", message, remedy)


def _refusals(context: Context, run: Workload, level: str) -> list[Refusal]:
    if not run.host_network and run.capabilities is None and run.pod_patch is None:
        return []
    try:
        launch, others = context.declared.queued(run)
    except WorkloadError:
        return []  # Other rules report it.
    found = (refusal for pods in launched_pods(launch, others) for refusal in refusals(pods.template, level))
    return list(dict.fromkeys(found))


def _setting(run: Workload, path: str) -> str:
    """Return the setting of a run from which a path in its pod template gets its value."""
    if path == "spec.hostNetwork":
        return "hostNetwork"
    capabilities = run.capabilities is not None and path.endswith(".securityContext.capabilities")
    return "capabilities" if capabilities else f"podPatch.{path}"


@Rule(
    id="isolation-lost",
    summary="A run uses the node's network (`hostNetwork`) in an isolated namespace.",
    details="NetworkPolicies do not apply to its pods, so they can connect to everything that the node can.",
    example="`hostNetwork: true` in a namespace that enforces Pod Security `privileged`, without `network`.",
    remedy="Remove `hostNetwork`, or set `network: {isolated: false}` of the namespace.",
)
def isolation_lost(context: RuleContext) -> Iterator[Violation]:
    isolated = {namespace.name for namespace in context.settings.environment.namespaces if namespace.isolated}
    for path, run in context.runs():
        if run.host_network and run.namespace in isolated:
            message = f"namespace {run.namespace} is isolated, but pods in the node's network are not"
            remedy = f"remove it, or set environment.namespaces[{run.namespace}].network.isolated to false"
            yield Violation(f"{path}.hostNetwork", message, remedy)


@Rule(
    id="egress-missing",
    severity="warning",
    summary="A run fetches code from a git server, but its namespace allows no such connections.",
    details="Where NetworkPolicies are enforced, the checkout fails after 5 minutes.",
    example='`code: {git: "https://git.example.org/digits.git", …}` in an isolated namespace.',
    remedy=(
        "Allow the server's addresses, `network: {egress: [{cidr: 203.0.113.7/32, ports: [443]}]}`, or set `isolated: "
        "false`."
    ),
)
def egress_missing(context: RuleContext) -> Iterator[Violation]:
    namespaces = context.settings.environment.namespaces
    isolated = {namespace.name for namespace in namespaces if namespace.isolated and not namespace.network.egress}
    for path, run in context.runs():
        if run.code is not None and run.namespace in isolated:
            message = f"its pods fetch code from {run.code.git}, but namespace {run.namespace} allows no egress"
            remedy = f"list the server's addresses under environment.namespaces[{run.namespace}].network.egress"
            yield Violation(f"{path}.code", message, remedy)


@Rule(
    id="ingress-missing",
    severity="warning",
    summary="The operator of a run connects to its pods, but its namespace allows no such connections.",
    details="Where NetworkPolicies are enforced, KubeRay does not learn how a RayJob ends.",
    example="`kind: RayJob` in an isolated namespace.",
    remedy=(
        "Add a NetworkPolicy that allows the operator to connect to port 8265 of the head, or set `network: {isolated: "
        "false}` of the namespace."
    ),
)
def ingress_missing(context: RuleContext) -> Iterator[Violation]:
    isolated = {namespace.name for namespace in context.settings.environment.namespaces if namespace.isolated}
    for path, run in context.runs():
        facts = kind_of_launch(launched_as(run))
        if facts.connects_to_pods and facts.controller and run.namespace in isolated:
            message = f"{facts.controller.title} connects to its pods, but namespace {run.namespace} is isolated"
            remedy = (
                "add a NetworkPolicy that allows it, and silence this rule, or set "
                f"environment.namespaces[{run.namespace}].network.isolated to false"
            )
            yield Violation(f"{path}.kind", message, remedy)
