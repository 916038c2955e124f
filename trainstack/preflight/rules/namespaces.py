"""Rules about pods that a namespace would refuse, or whose connections it blocks."""

from collections.abc import Iterator, Mapping

from trainstack.objects.labels import POD_SECURITY
from trainstack.platform.namespaces import enforced_level
from trainstack.preflight.downloads import find_downloads
from trainstack.preflight.examples import hello
from trainstack.preflight.pod_security import PodSecurityViolation, find_pod_security_violations
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import EnvironmentContext, RuleContext, built_pod_sets
from trainstack.preflight.rules.programs import pod_overrides
from trainstack.runs.manifests.kind import RunPodSet
from trainstack.runs.status.launch_kinds import kind_of_launch, launch_kind
from trainstack.runs.status.queued_workloads import pod_sets, pod_sets_by_setting
from trainstack.settings.sections.workloads import Workload


@Rule(
    id="pods-refused",
    summary="A run has `security: baseline` in a namespace that enforces `restricted`, the default.",
    change=hello("security: baseline"),
    remedy="Remove `security`, or set the namespace's label `pod-security.kubernetes.io/enforce: baseline`.",
)
def pods_refused(context: RuleContext) -> Iterator[Violation]:
    namespaces = context.settings.environment.namespaces
    strict = {namespace.name for namespace in namespaces if enforced_level(namespace) == "restricted"}
    for path, run, pods in context.pods_by_setting("security"):
        if pods.settings.security == "baseline" and run.namespace in strict:
            message = f"namespace {run.namespace} enforces Pod Security restricted and refuses baseline pods"
            remedy = f"remove security, or set the namespace's label {POD_SECURITY}enforce: baseline"
            yield Violation(path, message, remedy)


@Rule(
    id="pods-forbidden",
    summary="The `capabilities`, `hostNetwork`, `hostIPC` or `podPatch` of a run need a lower Pod Security level.",
    details=(
        "The namespace would refuse the pods, and the run would hold quota without them. The level of a namespace that "
        "the stack did not create is read from the cluster."
    ),
    change=hello("capabilities: {add: [IPC_LOCK]}"),
    remedy="Remove the setting, or have the namespace enforce the level that the message names.",
)
def pods_forbidden(context: RuleContext) -> Iterator[Violation]:
    levels = {namespace.name: enforced_level(namespace) for namespace in context.settings.environment.namespaces}
    yield from find_forbidden_pods(context, levels)


def find_forbidden_pods(context: EnvironmentContext, levels: Mapping[str, str]) -> Iterator[Violation]:
    """Yield the settings of runs that their namespace forbids.

    `levels`: the enforced Pod Security level of each namespace, as far as it is known.
    """
    for path, run in context.runs():
        violations = dict[Violation, None]()
        for pods, violation in _pod_security_violations(context, path, run, levels.get(run.namespace, "")):
            message = f"{violation.problem}: namespace {run.namespace} enforces Pod Security {levels[run.namespace]}"
            required_level = "privileged" if violation.level == "baseline" else "baseline"
            remedy = f"{violation.remedy}, or set the namespace's label {POD_SECURITY}enforce: {required_level}"
            violations[Violation(_setting_path(pods, violation.path), message, remedy)] = None
        yield from violations


def _pod_security_violations(
    context: EnvironmentContext, path: str, run: Workload, level: str
) -> Iterator[tuple[RunPodSet, PodSecurityViolation]]:
    settings = [pods.settings for pods in pod_sets(path, run)]
    uses_node = run.host_network or run.host_ipc
    if not uses_node and all(pods.capabilities is None and pods.pod_patch is None for pods in settings):
        return
    for pods, launched in built_pod_sets(context, path, run):
        # pods-refused reports the rest.
        pods_level = "baseline" if pods.settings.security == "baseline" and level == "restricted" else level
        for violation in find_pod_security_violations(launched.template, pods_level):
            yield pods, violation


def _setting_path(pods: RunPodSet, path: str) -> str:
    """Return the path of the setting from which a path in a pod template gets its value."""
    if pods.template_path is not None:
        return f"{pods.template_path}.{path}"
    if path == "spec.hostNetwork" or (path == "spec.hostIPC" and not _patch_sets(pods, "hostIPC")):
        return f"{pods.run_path}.{path.removeprefix('spec.')}"
    if pods.settings.capabilities is not None and path.endswith(".securityContext.capabilities"):
        return pods.setting_path("capabilities")
    return f"{pods.setting_path('pod_patch')}.{path}"


def _patch_sets(pods: RunPodSet, field: str) -> bool:
    return field in (pods.settings.pod_patch or {}).get("spec", {})


@Rule(
    id="isolation-lost",
    summary="A run uses the node's network (`hostNetwork`) in an isolated namespace.",
    details="NetworkPolicies do not apply to its pods, so they can connect to everything that the node can.",
    example="`hostNetwork: true` in a namespace that enforces Pod Security `privileged`, without `network`.",
    remedy="Remove `hostNetwork`, or set `network: {isolated: false}` of the namespace.",
)
def isolation_lost(context: RuleContext) -> Iterator[Violation]:
    isolated = {namespace.name for namespace in context.settings.environment.namespaces if namespace.is_isolated}
    for path, run in context.runs():
        uses_node = {f"{path}.hostNetwork"} if run.host_network else set()
        uses_node |= {
            f"{pods.template_path}.spec.hostNetwork"
            for pods in pod_sets(path, run)
            if pods.template_path is not None and _patch_sets(pods, "hostNetwork")
        }
        for setting_path in sorted(uses_node) if run.namespace in isolated else ():
            message = f"namespace {run.namespace} is isolated, but pods in the node's network are not"
            remedy = f"remove it, or set environment.namespaces[{run.namespace}].network.isolated to false"
            yield Violation(setting_path, message, remedy)


@Rule(
    id="egress-missing",
    severity="warning",
    summary="A run fetches code from a git server, or downloads packages or files, but its namespace allows no egress.",
    details=(
        "Where NetworkPolicies are enforced, the checkout fails after 5 minutes, and `pip install`, `git clone`, "
        "`curl` and the like fail or wait. The rule finds commands that obviously download in commands and "
        "arguments, not the downloads of programs."
    ),
    example='`code: {git: "https://git.example.org/digits.git", …}` in an isolated namespace.',
    remedy=(
        "Allow the server's addresses, `network: {egress: [{cidr: 203.0.113.7/32, ports: [443]}]}`, or set `isolated: "
        "false`."
    ),
)
def egress_missing(context: RuleContext) -> Iterator[Violation]:
    namespaces = context.settings.environment.namespaces
    isolated = {namespace.name for namespace in namespaces if namespace.is_isolated and not namespace.network.egress}
    for path, run in context.runs():
        if run.code is not None and run.namespace in isolated:
            message = f"its pods fetch code from {run.code.git}, but namespace {run.namespace} allows no egress"
            remedy = f"list the server's addresses under environment.namespaces[{run.namespace}].network.egress"
            yield Violation(f"{path}.code", message, remedy)
        for texts_path, text in _programs(path, run) if run.namespace in isolated else ():
            for command in find_downloads(text):
                message = f"{command} downloads, but namespace {run.namespace} allows no egress"
                remedy = (
                    "put it into the image or on a volume, or list the addresses under "
                    f"environment.namespaces[{run.namespace}].network.egress"
                )
                yield Violation(texts_path, message, remedy)


def _programs(path: str, run: Workload) -> Iterator[tuple[str, str]]:
    """Yield the command lines of a run and of the containers of its patch, with the path of the part that varies."""
    if run.command or run.args:
        yield f"{path}.{'args' if run.args else 'command'}", " ".join((*run.command, *run.args))
    for role_path, overrides in pod_overrides(path, run):
        if overrides.args is not None:
            yield f"{role_path}.args", " ".join((*run.command, *overrides.args))
    for patch_path, pods in pod_sets_by_setting(path, run, "pod_patch").items():
        spec = (pods.settings.pod_patch or {}).get("spec", {})
        for field in ("initContainers", "containers"):
            for container in spec.get(field, ()):
                words = (*(container.get("command") or ()), *(container.get("args") or ()))
                yield f"{patch_path}.spec.{field}[{container.get('name')}]", " ".join(words)


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
    isolated = {namespace.name for namespace in context.settings.environment.namespaces if namespace.is_isolated}
    for path, run in context.runs():
        facts = kind_of_launch(launch_kind(run))
        if facts.connects_to_pods and facts.controller and run.namespace in isolated:
            message = f"{facts.controller.title} connects to its pods, but namespace {run.namespace} is isolated"
            remedy = (
                "add a NetworkPolicy that allows it, and silence this rule, or set "
                f"environment.namespaces[{run.namespace}].network.isolated to false"
            )
            yield Violation(f"{path}.kind", message, remedy)
