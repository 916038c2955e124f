"""Values of a RayJob: Ray's version, runtime environment and the parameters of its processes."""

from typing import Annotated

import yaml
from pydantic import AfterValidator, Field

RayVersion = Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+[-.+a-z0-9]*$")]
RayParameter = Annotated[str, Field(pattern="^[a-z][a-z0-9-]*$")]
"""A parameter of `ray start` without `--`."""


def _check_runtime_env(text: str) -> str:
    """Source: ValidateRayJobSpec of KubeRay."""
    try:
        runtime_env = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML ({' '.join(str(error).split())}); correct it") from error
    if not isinstance(runtime_env, dict):
        raise ValueError("is not a map; write a text such as `pip: [torch]`")  # noqa: TRY004 (a fault of settings)
    return text


RuntimeEnv = Annotated[str, AfterValidator(_check_runtime_env)]
"""Ray's runtime environment, as a YAML text."""
