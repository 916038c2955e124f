"""Rules about digests of the images of an environment."""

import re
from collections.abc import Iterator

from trainstack.files.project import project_file
from trainstack.files.regular import read_bytes
from trainstack.platform.operators.install import OperatorError
from trainstack.platform.operators.release import ReleaseError
from trainstack.preflight.examples import yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.preflight.used_images import UsedImage, used_images
from trainstack.runs.manifests.user_manifest import needs_image_user
from trainstack.runs.role_pods import RolePods, role_pods
from trainstack.settings.loading.load import pins_file
from trainstack.settings.model import Cluster
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Workload
from trainstack.stack_objects.inputs import InputsError
from trainstack.stack_objects.stack_objects import StackObjects

_DOCKERFILE = "Dockerfile"
_INSTRUCTION = re.compile(r"^[ \t]*(FROM|USER)[ \t]+(.*)$", re.IGNORECASE | re.MULTILINE)
_AS_ROOT = "runs as root, and its pods have runAsNonRoot"


@Rule(
    id="image-unpinned",
    may_be=("unknown",),
    summary="The environment requires digests (`environment.pinned`), and an image has only a tag.",
    details="A tag may be moved. `unknown` if an operator's release was not downloaded.",
    change=yaml_at("environment", "pinned: true"),
    remedy=(
        "Push images of this repository, run `trainstack pin -s prod` and commit the file, or name the image as "
        "`…@sha256:…`."
    ),
)
def image_unpinned(context: RuleContext) -> Iterator[Violation]:
    settings = context.settings
    for image in _used_or_unknown_images(context) if settings.environment.pinned else ():
        if isinstance(image, Violation):
            yield image
        elif not image.has_digest and image.reference not in settings.pins:
            message = f"image {image.reference} has no digest, and {pins_file(settings.stack)} does not pin it"
            yield Violation(image.path, message, f"run `trainstack pin -s {settings.stack}`")
    for path, _, pods in context.pods_by_setting("pod_patch") if settings.environment.pinned else ():
        for reference in _images_of_patch(pods.settings):
            if "@" not in reference:
                message = f"image {reference} has no digest, and pins do not apply to a podPatch"
                yield Violation(path, message, "write `@sha256:` and its digest")


@Rule(
    id="pins-missing",
    severity="warning",
    summary="The environment names a registry, but does not require digests.",
    details="A tag may be moved, so that two pods of a run have different images.",
    change=yaml_at("cluster", "registry: registry.example.org"),
    remedy="Set `environment.pinned: true` and run `trainstack pin -s prod`, or silence the finding.",
)
def pins_missing(context: RuleContext) -> Iterator[Violation]:
    registry = context.settings.cluster.registry
    if registry != Cluster().registry and not context.settings.environment.pinned:
        message = f"images of {registry} are identified by tags, which may be moved to other images"
        remedy = f"set it to true and run `trainstack pin -s {context.settings.stack}`"
        yield Violation("environment.pinned", message, remedy)


def _images_of_patch(pods: RolePods) -> list[str]:
    """Return the images that a `podPatch` sets, of containers and of image volumes."""
    spec = (pods.pod_patch or {}).get("spec", {})
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    volumes = [volume.get("image", {}).get("reference") for volume in spec.get("volumes", ())]
    return [image for image in (*(container.get("image") for container in containers), *volumes) if image]


@Rule(
    id="image-user",
    summary="The image of a run has a user with which a `restricted` pod is not started.",
    details=(
        "Pods with security `restricted`, the default, have `runAsNonRoot`. The kubelet starts no container of an "
        "image that runs as root, or whose user is a name, which may be root's. The user is read from the last `USER` "
        "of a Dockerfile in this repository, and with `--cluster` from the registry of other images."
    ),
    example='`image: {name: "python:3.13"}` without `runAsUser`.',
    remedy="Set `runAsUser`, or `security: baseline` in a namespace that accepts it.",
)
def image_user(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if run.image.build is None or not has_image_user(run):
            continue
        file = f"{run.image.build}/{_DOCKERFILE}"
        try:
            text = read_bytes(project_file(context.root, file)).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # Other rules report it.
        user = dockerfile_user(text)
        if user is not None and (problem := user_problem(user)):
            yield Violation(f"{path}.image.build", f"the image of {file} {problem}")


def has_image_user(run: Workload) -> bool:
    """Return whether some pods of a run must not run as root, and have the user of the image."""
    if run.manifest is not None:
        return needs_image_user(run)
    return run.runtime is None and any(map(_has_image_user, role_pods(run)))


def _has_image_user(pods: RolePods) -> bool:
    spec = (pods.pod_patch or {}).get("spec", {})
    contexts = [part.get("securityContext", {}) for part in (spec, *spec.get("containers", ()))]
    is_root_allowed = any(context.get("runAsNonRoot") is False for context in contexts)
    return pods.security == "restricted" and pods.run_as_user is None and not is_root_allowed


def user_problem(user: str) -> str:
    """Return why the kubelet starts no container with `runAsNonRoot` and this user of the image; empty if it does.

    Source: verifyRunAsNonRoot in k8s.io/kubernetes/pkg/kubelet/kuberuntime.
    """
    name = user.partition(":")[0]
    if not name.isdecimal():
        return f"has the user {name}, whose id the kubelet does not know" if name not in ("", "root") else _AS_ROOT
    return "" if int(name) else _AS_ROOT


def dockerfile_user(text: str) -> str | None:
    """Return the user that the last stage of a Dockerfile sets; None if its base or a build argument decides."""
    user = None
    for instruction, argument in _INSTRUCTION.findall(text):
        user = argument.strip() if instruction.upper() == "USER" else None
    return None if user is None or "$" in user else user


def _used_or_unknown_images(context: RuleContext) -> Iterator[UsedImage | Violation]:
    """Yield the images, and a violation for images that are unknown.

    If an operator's release is missing, the images of runs are still known.
    """
    stack_objects, settings = context.stack_objects, context.settings
    try:
        yield from used_images(
            stack_objects if stack_objects.has_inputs else StackObjects.from_files(settings, context.root)
        )
    except (InputsError, OSError) as error:
        yield _unknown_digests("environment.pinned", error)
    except (ReleaseError, OperatorError) as error:
        yield _unknown_digests("operators", error)
        settings_without_operators = settings.model_copy(update={"operators": Operators()})
        yield from used_images(StackObjects.from_files(settings_without_operators, context.root))


def _unknown_digests(path: str, error: Exception) -> Violation:
    message = f"whether all images have digests is unknown: {error}"
    return Violation(path, message, "fix this, then repeat the check", "unknown")
