"""The base class and shared types of all settings: frozen, strict, camelCase in files."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from trainstack.settings.values.kubernetes import DnsName, LabelKey, LabelValue


def raise_faults(faults: Iterable[str]) -> None:
    """Raise one ValueError with all faults, each as `problem: remedy`; do nothing if there are none."""
    if message := "; ".join(faults):
        raise ValueError(message)


class Section(BaseModel):
    """Plain frozen data. Unknown keys and values of another type are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )


Text = Annotated[str, Field(min_length=1)]
"""A non-empty string."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

ImageDigest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]

_MAX_PATH_BYTES = 1024
_MAX_NAME_BYTES = 255
"""Of one component of a path: the limit of Linux file systems."""


def _check_file_path(text: str) -> str:
    longest = max(len(name.encode()) for name in text.split("/"))
    if longest > _MAX_NAME_BYTES or len(text.encode()) > _MAX_PATH_BYTES:
        raise ValueError(
            f"a path has at most {_MAX_PATH_BYTES} bytes, and each name in it at most {_MAX_NAME_BYTES}; shorten it"
        )
    return text


FilePath = Annotated[Text, AfterValidator(_check_file_path)]
"""A file, a folder or a module of the repository. A rule checks that it exists."""


def check_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(f"{', '.join(duplicates)} is listed more than once; list it once")
    return names


def tuples_to_lists(value: Any) -> Any:
    """Return the value with lists for the tuples of loaded files: paths lead into lists, as in live objects."""
    if isinstance(value, Mapping):
        return {key: tuples_to_lists(item) for key, item in value.items()}
    return [tuples_to_lists(item) for item in value] if isinstance(value, list | tuple) else value


ApiFields = Annotated[dict[str, Any], AfterValidator(tuples_to_lists)]
"""A part of an object as the API has it; the API server validates it."""

UniqueNames = Annotated[tuple[DnsName, ...], AfterValidator(check_unique)]
"""Names of a list that the API server keeps as a map or a set, such as imagePullSecrets."""


class Toleration(Section):
    """A pod's toleration of a node's taint.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/, and ValidateTolerations
    """

    key: LabelKey | None = None
    operator: str = Field("Equal", pattern="^(Equal|Exists)$")
    value: LabelValue | None = None
    effect: str | None = Field(None, pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$")
    toleration_seconds: int | None = Field(None, ge=0, le=2**63 - 1)

    @model_validator(mode="after")
    def _check_consistency(self) -> "Toleration":
        faults = []
        if self.operator == "Exists" and self.value:
            faults.append(f"operator Exists takes no value (got {self.value}): leave out value, or write Equal")
        if self.operator == "Equal" and self.key is None:
            faults.append("operator Equal needs a key: add key, or write operator Exists to tolerate every taint")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            faults.append("tolerationSeconds requires effect NoExecute: set it, or leave out tolerationSeconds")
        raise_faults(faults)
        return self
