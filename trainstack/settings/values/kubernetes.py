"""Types of values that the API server accepts.

The docstring of a type cites its function in k8s.io/apimachinery/pkg/util/validation or k8s.io/kubernetes/pkg/apis.
"""

import re
from collections.abc import Callable, Collection
from typing import Annotated

from pydantic import AfterValidator, Field

from trainstack.settings.errors import closest_name, suggest_name

MAX_INT32 = 2**31 - 1
NonNegative = Annotated[int, Field(ge=0, le=MAX_INT32)]
Positive = Annotated[int, Field(ge=1, le=MAX_INT32)]
Int32 = Annotated[int, Field(ge=-(2**31), le=MAX_INT32)]
Parallelism = Annotated[int, Field(ge=1, le=100_000)]
"""Concurrent pods of one Job. Source: maxParallelismForIndexedJob in k8s.io/kubernetes/pkg/apis/batch/validation."""
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Port = Annotated[int, Field(ge=1, le=65535)]

DnsLabel = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""A label as defined by RFC 1123: lower-case letters, digits, '-', at most 63 characters."""

DnsName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", max_length=253)
]
"""A subdomain as defined by RFC 1123: labels joined by '.', at most 253 characters."""

LABEL_LIMIT, DOMAIN_LIMIT = 63, 253
"""Characters of a label's value and of the name in its key; characters of the domain before the '/' in its key."""
ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all annotations of an object together."""
STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""A container's resources without a domain, except huge pages."""
HUGE_PAGES = "hugepages-"
HOSTNAME = "kubernetes.io/hostname"
"""The label that the kubelet sets on its node; the narrowest level of topologies."""

_NAME = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ENV_NAME = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
_HUGE_PAGES = re.compile(r"hugepages-[1-9][0-9]*[KMGT]i")
_HOST = re.compile(
    r"([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?"
)
_COMPONENT = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_MAX_REPOSITORY = 255


def quote(text: str) -> str:
    """Return a value in quotes for a message: shortened, and without "; ", which separates problem and remedy."""
    return repr(text if len(text) <= 70 else f"{text[:67]}...").replace("; ", ";\\x20")


def is_qualified_name(text: str) -> bool:
    """Return whether a text is a valid label key: a name, optionally after a domain and '/'.

    Source: IsQualifiedName.
    """
    domain, slash, name = text.rpartition("/")
    return (_is_subdomain(domain) if slash else True) and len(name) <= LABEL_LIMIT and bool(_NAME.fullmatch(name))


def _is_subdomain(text: str) -> bool:
    return len(text) <= DOMAIN_LIMIT and bool(_SUBDOMAIN.fullmatch(text))


_NAME_REMEDY = f"up to {LABEL_LIMIT} letters, digits, '-', '_' and '.', with a letter or digit at both ends"
_KEY_REMEDY = f"{_NAME_REMEDY}; a domain and '/' may precede them".replace("; ", ", ")


def _validator(is_valid: Callable[[str], bool], name: str, remedy: str) -> AfterValidator:
    def validate(text: str) -> str:
        if not is_valid(text):
            raise ValueError(f"{quote(text)} is not a valid {name}; write {remedy}")
        return text

    return AfterValidator(validate)


def is_label_value(text: str) -> bool:
    return not text or (len(text) <= LABEL_LIMIT and bool(_NAME.fullmatch(text)))


def _is_annotation_key(text: str) -> bool:
    return is_qualified_name(text.lower())


def _is_env_name(text: str) -> bool:
    return bool(_ENV_NAME.fullmatch(text)) and text != "." and not text.startswith("..")


def _check_annotations(annotations: dict[str, str]) -> dict[str, str]:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT:
        raise ValueError(
            f"the annotations have {size} bytes, more than the limit of {ANNOTATIONS_LIMIT}; move data into a volume"
        )
    return annotations


def _check_absolute_path(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError(f"{quote(text)} is not an absolute path; write an absolute path, beginning with /")
    if "\0" in text:
        raise ValueError("contains a NUL character, which is not allowed in a path; remove it")
    return text


def _check_mount_path(text: str) -> str:
    if ":" in _check_absolute_path(text):
        raise ValueError(f"{quote(text)} contains ':', which is not allowed in a mount path; remove it")
    if not text.strip("/"):
        raise ValueError("a volume mounted at / would hide the image's files; write a folder such as /mnt/data")
    return text


def _check_volume_path(text: str) -> str:
    if text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"{quote(text)} is not a path in a volume; write it without '/' at the beginning and '..'")
    return text


_POD_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_METADATA_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def _check_pod_field(text: str) -> str:
    match = _METADATA_FIELD.fullmatch(text)
    if text not in _POD_FIELDS and (match is None or not _is_annotation_key(match[2])):
        valid = (*_POD_FIELDS, "metadata.labels['<key>']", "metadata.annotations['<key>']")
        raise ValueError(unknown_word_message(text, valid))
    return text


def _check_host_path(text: str) -> str:
    if ".." in _check_absolute_path(text).split("/"):
        raise ValueError(
            f"{quote(text)} contains '..', which is not allowed in a hostPath; write the path without '..'"
        )
    return text


def _check_secret_key(text: str) -> str:
    # The message does not repeat the key: it may be a secret value in the wrong place.
    if not re.fullmatch(r"[-._A-Za-z0-9]+", text) or len(text) > DOMAIN_LIMIT or text == "." or text.startswith(".."):
        raise ValueError(
            f"is not a valid key of a Secret; write up to {DOMAIN_LIMIT} letters, digits, '-', '_' and '.', without "
            "'..' at the beginning"
        )
    return text


def _check_resource_name(text: str) -> str:
    if not is_qualified_name(text):
        raise ValueError(f"{quote(text)} is not a valid resource name; {_resource_remedy(text)}")
    return text


def is_container_resource(text: str) -> bool:
    """Return whether a container can request a resource. Source: validateContainerResourceName."""
    return (
        is_extended_resource(text)
        if "/" in text
        else text in STANDARD_RESOURCES or _HUGE_PAGES.fullmatch(text) is not None
    )


def _check_container_resource(text: str) -> str:
    if not is_container_resource(text):
        raise ValueError(f"{quote(text)} is not a resource that a container can request; {_resource_remedy(text)}")
    return text


def is_extended_resource(name: str) -> bool:
    """Return whether a resource is an extended one, such as a device plugin's, whose quantities are integers.

    Source: IsExtendedResourceName.
    """
    native = "/" not in name or "kubernetes.io/" in name
    return not native and not name.startswith("requests.") and is_qualified_name(f"requests.{name}")


def _resource_remedy(text: str) -> str:
    match = closest_name(text, STANDARD_RESOURCES)
    return f"did you mean {match}?" if match else "write cpu, memory, ephemeral-storage, or one such as nvidia.com/gpu"


def _check_registry(text: str) -> str:
    host, *path = text.split("/")
    _check_no_scheme(text, "a registry name")
    if not _HOST.fullmatch(host) or not all(_COMPONENT.fullmatch(part) for part in path):
        raise ValueError(f"{quote(text)} is not a valid registry name; write one such as registry.example.org/team")
    return text


def _check_image_reference(text: str) -> str:
    """Raise ValueError for an invalid reference.

    Source: the grammar of github.com/distribution/reference, which the kubelet applies.
    """
    _check_no_scheme(text, "an image reference")
    name_and_tag, separator, digest = text.partition("@")
    if separator and not _DIGEST.fullmatch(digest):
        raise ValueError(
            f"{quote(text)} has an invalid digest; write sha256: and 64 lower-case hexadecimal digits, as "
            "`trainstack pin` prints them"
        )
    slash = name_and_tag.rfind("/")
    colon = name_and_tag.find(":", slash + 1)
    name, tag = (name_and_tag, None) if colon < 0 else (name_and_tag[:colon], name_and_tag[colon + 1 :])
    if tag is not None and not _TAG.fullmatch(tag):
        raise ValueError(f"{quote(text)} has an invalid tag; write up to 128 letters, digits, '-', '_' and '.'")
    if not _is_repository(name):
        is_valid_in_lower_case = name.lower() != name and _is_repository(name.lower())
        remedy = (
            f"write {name.lower()}"
            if is_valid_in_lower_case
            else "write a reference such as registry.example.org/team/digits:1"
        )
        raise ValueError(f"{quote(text)} is not a valid image reference; {remedy}")
    return text


def _is_repository(name: str) -> bool:
    first_component, slash, remainder = name.partition("/")
    is_host = bool(slash) and (any(sign in first_component for sign in ".:") or first_component == "localhost")
    path = remainder if is_host else name
    return (
        len(name) <= _MAX_REPOSITORY
        and (not is_host or bool(_HOST.fullmatch(first_component)))
        and all(_COMPONENT.fullmatch(part) for part in path.split("/"))
    )


def _check_no_scheme(text: str, name: str) -> None:
    scheme, separator, _ = text.partition("://")
    if separator:
        raise ValueError(f"{quote(text)} has a scheme, but {name} has none; leave out {scheme}{separator}")


def unknown_word_message(word: str, valid_words: Collection[str]) -> str:
    """Return the message of a ValueError: `'restrictd' is not one of …; did you mean restricted?`."""
    return f"{quote(word)} is not one of {', '.join(valid_words)}; {suggest_name(word, valid_words)}"


LabelKey = Annotated[str, _validator(is_qualified_name, "label key", _KEY_REMEDY)]
LabelValue = Annotated[str, _validator(is_label_value, "label value", _NAME_REMEDY)]
"""Source: IsValidLabelValue."""
Labels = dict[LabelKey, LabelValue]
AnnotationKey = Annotated[str, _validator(_is_annotation_key, "annotation key", _KEY_REMEDY)]
Annotations = Annotated[dict[AnnotationKey, str], AfterValidator(_check_annotations)]
"""Source: ValidateAnnotations of apimachinery/pkg/api/validation."""
_ENV_REMEDY = "letters, digits, '_', '-' and '.', without a digit at the beginning"
EnvName = Annotated[str, _validator(_is_env_name, "name of an environment variable", _ENV_REMEDY)]
"""The form that every Kubernetes release accepts; newer ones accept more characters. Source: IsEnvVarName."""
PodField = Annotated[str, AfterValidator(_check_pod_field)]
"""A field of a pod in the downward API. Source: validEnvDownwardAPIFieldPathExpressions."""
AbsolutePath = Annotated[str, AfterValidator(_check_absolute_path)]
"""A container's working directory: the container runtime rejects a relative one."""
MountPath = Annotated[str, AfterValidator(_check_mount_path)]
"""Source: the API reference of VolumeMount."""
VolumePath = Annotated[str, Field(min_length=1), AfterValidator(_check_volume_path)]
"""Source: validateLocalDescendingPath."""
HostPath = Annotated[str, AfterValidator(_check_host_path)]
"""Source: validateHostPathVolumeSource and validatePathNoBacksteps."""
Provisioner = Annotated[str, _validator(_is_annotation_key, "provisioner name", "one such as ebs.csi.aws.com")]
"""Source: validateProvisioner of pkg/apis/storage/validation."""
SecretKey = Annotated[str, AfterValidator(_check_secret_key)]
"""Source: IsConfigMapKey."""
ResourceName = Annotated[str, AfterValidator(_check_resource_name)]
"""A resource with quota: one that containers request, or that Kueue derives from a request."""
ContainerResource = Annotated[str, AfterValidator(_check_container_resource)]
"""A resource that a container requests."""
ImageReference = Annotated[str, Field(min_length=1), AfterValidator(_check_image_reference)]
Registry = Annotated[str, Field(min_length=1), AfterValidator(_check_registry)]
