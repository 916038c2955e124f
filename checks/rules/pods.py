"""Pods that a namespace would not take, or not let out."""

from collections.abc import Iterator

from checks.rule import Check, Rule, Violation
from checks.scene import Scene
from manifests.labels import POD_SECURITY
from manifests.namespaces import enforced


@Rule(
    id="pods-refused",
    severity="error",
    summary=(
        "A run is built for Pod Security `baseline` and stands in a namespace of this stack that enforces "
        "`restricted`, as all do that do not say otherwise; the API server would refuse each of its pods."
    ),
    example="`security: baseline` in namespace `research`, which is declared as `- name: research`.",
    remedy=(
        "Leave `security` out, so that the pods are built for `restricted`; or give the namespace the label "
        "`pod-security.kubernetes.io/enforce: baseline`."
    ),
)
def pods_refused(scene: Scene) -> Iterator[Violation]:
    """A run that is built for Pod Security `baseline` is in no namespace that this stack lets enforce `restricted`."""
    strict = {one.name for one in scene.settings.environment.namespaces if enforced(one) == "restricted"}
    for path, run in scene.runs():
        if run.security == "baseline" and run.namespace in strict:
            message = f"namespace {run.namespace} enforces Pod Security restricted, and refuses pods of baseline"
            remedy = f"leave security out, or give the namespace the label {POD_SECURITY}enforce: baseline"
            yield Violation(f"{path}.security", message, remedy)


@Rule(
    id="egress-missing",
    severity="warning",
    summary=(
        "A run fetches its code from a git server, and its namespace is isolated, as all are that the stack creates "
        "and that do not say otherwise."
    ),
    details="Where the cluster's network knows policies, the checkout would end after 5 minutes without an answer.",
    example=(
        '`code: {git: "https://git.example.org/vision/mnist.git", …}` in namespace `vision`, which has no `network`.'
    ),
    remedy=(
        "Name the server's addresses: `network: {egress: [{cidr: 203.0.113.7/32, ports: [443]}]}`; or leave the "
        "namespace open: `network: {isolated: false}`."
    ),
)
def egress_missing(scene: Scene) -> Iterator[Violation]:
    """A run that checks code out stands where its pods may connect to something."""
    shut = {one.name: one for one in scene.settings.environment.namespaces if one.isolated and not one.network.egress}
    for path, run in scene.runs():
        if run.code is not None and run.namespace in shut:
            message = f"its pods fetch from {run.code.git}, and namespace {run.namespace} lets them connect to nothing"
            remedy = f"name the server's addresses under environment.namespaces[{run.namespace}].network.egress"
            yield Violation(f"{path}.code", message, remedy)


RULES: tuple[Check[Scene], ...] = (pods_refused, egress_missing)
