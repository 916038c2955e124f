"""Pods that a namespace would not take, or not let out."""

from collections.abc import Iterator

from trainstack.objects.labels import POD_SECURITY
from trainstack.platform.namespaces import enforced
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene


@Rule(
    id="pods-refused",
    severity="error",
    summary="A run is built for Pod Security `baseline` in a namespace that enforces `restricted`.",
    details=(
        "The API server would refuse its pods. Every namespace of the stack enforces `restricted` unless its labels "
        "set another level."
    ),
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, security: baseline}
    """,
    remedy=(
        "Remove `security`, so that the pods are built for `restricted`; or give the namespace the label "
        "`pod-security.kubernetes.io/enforce: baseline`."
    ),
)
def pods_refused(scene: Scene) -> Iterator[Violation]:
    strict = {one.name for one in scene.settings.environment.namespaces if enforced(one) == "restricted"}
    for path, run in scene.runs():
        if run.security == "baseline" and run.namespace in strict:
            message = f"namespace {run.namespace} enforces Pod Security restricted, and refuses pods of baseline"
            remedy = f"leave security out, or give the namespace the label {POD_SECURITY}enforce: baseline"
            yield Violation(f"{path}.security", message, remedy)


@Rule(
    id="egress-missing",
    severity="warning",
    summary="A run fetches its code from a git server, and its namespace allows no connections to other networks.",
    details=(
        "Every namespace of the stack is isolated unless it sets `network`. If the cluster enforces "
        "NetworkPolicies, the checkout fails after 5 minutes."
    ),
    change="""
        trainstack:workloads:
          runs:
            - name: digits
              code:
                git: "https://git.example.org/vision/digits.git"
                revision: 0123456789abcdef0123456789abcdef01234567
                mountPath: /src
    """,
    remedy=(
        "Allow the server's addresses, `network: {egress: [{cidr: 203.0.113.7/32, ports: [443]}]}`, or open the "
        "namespace with `network: {isolated: false}`."
    ),
)
def egress_missing(scene: Scene) -> Iterator[Violation]:
    shut = {one.name: one for one in scene.settings.environment.namespaces if one.isolated and not one.network.egress}
    for path, run in scene.runs():
        if run.code is not None and run.namespace in shut:
            message = f"its pods fetch from {run.code.git}, and namespace {run.namespace} lets them connect to nothing"
            remedy = f"name the server's addresses under environment.namespaces[{run.namespace}].network.egress"
            yield Violation(f"{path}.code", message, remedy)


RULES: tuple[Check[Scene], ...] = (pods_refused, egress_missing)
