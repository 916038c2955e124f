"""What a component of any Pulumi program takes: a section of the settings, a dict of the same form, or its objects."""

from collections.abc import Mapping
from typing import Any, TypeVar

import pulumi
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

Section = TypeVar("Section", bound=BaseModel)


def validated(model: type[Section], args: Section | Mapping[str, Any]) -> Section:
    """A section from its form as a dict, with keys in camelCase as in the files.

    Raises RunError with every fault: its path, and why the value is refused.
    """
    if isinstance(args, model):
        return args
    try:
        # As JSON, in which a list is a sequence of any type.
        return model.model_validate_json(to_json(args, by_alias=True))
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise pulumi.RunError(f"{model.__name__}: " + "; ".join(faults)) from error


def label(stack: str | None) -> str:
    """The stack that the objects are labelled with: this one, or the Pulumi stack."""
    return stack if stack is not None else pulumi.get_stack()
