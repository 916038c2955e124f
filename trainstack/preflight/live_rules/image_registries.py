"""Rules about the images of runs and of the data loader in their registries."""

from collections.abc import Iterator

from trainstack.preflight.live_context import LiveContext, UnservedImage
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rules.images import image_user, user_problem
from trainstack.runs.images.references import registry_host


@Rule(
    id="image-missing",
    may_be=("unknown",),
    summary="The registry does not have the image of a run or of the data loader.",
    details=(
        "`up` does not launch a run whose image has a Dockerfile in this repository. `unknown` if the registry does "
        "not answer, or refuses this user."
    ),
    example="`image: {build: workloads/digits}` after an edit of that folder.",
    remedy="Run `trainstack image push digits -s lab`, or correct the image's name.",
)
def image_missing(context: LiveContext) -> Iterator[Violation]:
    yield from (image_violation(image) for image in context.live.unserved_images if not image.host_path)
    for image in context.live.named_images:
        if image.problem == "missing":
            message = f"the registry does not have {image.reference}"
            yield Violation(image.path, message, "correct the name, or have the image pushed")
        elif image.problem == "unknown":
            message = f"whether the registry has {image.reference} is unknown: {image.reason}"
            yield Violation(image.path, message, "run the check again where the registry can be reached", "unknown")


@Rule(
    id="registry-unreachable",
    summary="The host of an image's registry has no address here.",
    details="Silence it if only the nodes can reach the registry, or if they use a mirror.",
    example="`registry.local/digits:1` on a cluster other than the local one.",
    remedy="Correct the host, or set `cluster.registry` and push the image with `trainstack image push`.",
)
def registry_unreachable(context: LiveContext) -> Iterator[Violation]:
    for image in context.live.named_images:
        if image.problem == "unreachable":
            yield Violation(image.path, f"{image.reference}: {image.reason}")
    for unserved in context.live.unserved_images:
        if unserved.host_path:
            yield host_violation(unserved)


@Rule(
    id="pull-secret-unset",
    severity="warning",
    summary="The registry of an image requires a login, and the pods have no pull secret.",
    details="Nodes may have credentials of their own, as on EKS, GKE and AKS for the cloud's registry.",
    example="`image: {name: ghcr.io/lab/train:1}` of a private repository.",
    remedy="Create a Secret of type `kubernetes.io/dockerconfigjson`, and name it under `imagePullSecrets`.",
)
def pull_secret_unset(context: LiveContext) -> Iterator[Violation]:
    for image in context.live.named_images:
        if image.problem == "denied" and not image.has_pull_secret:
            yield Violation(image.path, f"{image.reference}: {registry_host(image.reference)} requires a login")


@image_user.rule
def image_user_on_cluster(context: LiveContext) -> Iterator[Violation]:
    for image in context.live.image_users:
        if problem := user_problem(image.user):
            yield Violation(image.path, f"{image.reference} {problem}")


def host_violation(image: UnservedImage) -> Violation:
    remedy = f"correct the host, then run `{image.command}`"
    return Violation(image.host_path, f"{image.reference}: {image.reason}", remedy)


def image_violation(image: UnservedImage) -> Violation:
    path = f"{image.path}.image"
    if image.is_missing:
        return Violation(path, f"the registry does not have {image.reference}", f"run `{image.command}`")
    message = f"whether the registry has {image.reference} is unknown: {image.reason}"
    return Violation(path, message, f"push it with `{image.command}`", "unknown")
