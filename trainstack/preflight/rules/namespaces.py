"""Pods that a namespace would refuse, or whose connections it blocks."""

from collections.abc import Iterator

from trainstack.objects.labels import POD_SECURITY
from trainstack.platform.namespaces import enforced
from trainstack.preflight.examples import digits
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext


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
