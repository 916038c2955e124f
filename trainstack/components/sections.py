"""The arguments of components in any Pulumi program: a section of the settings, or a dict of the same form."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, TypeVar

import pulumi
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from trainstack.runs.errors import WorkloadError
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.launch_groups import LaunchGroup
from trainstack.stack_objects.stack_objects import StackObjects

Section = TypeVar("Section", bound=BaseModel)


def validate_section(model: type[Section], args: Section | Mapping[str, Any]) -> Section:
    """Convert a dict, with keys in camelCase as in the files, to a section. Raises RunError with all faults."""
    if isinstance(args, model):
        return args
    try:
        # Strict validation accepts a list for a tuple only in JSON.
        return model.model_validate_json(to_json(args, by_alias=True))
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise pulumi.RunError(f"{model.__name__}: " + "; ".join(faults)) from error


def stack_label(stack: str | None) -> str:
    return stack if stack is not None else pulumi.get_stack()


def build_stack_objects(stack: str | None, inputs: Inputs | None = None, **sections: BaseModel) -> StackObjects:
    """The objects of some sections, labelled with `stack`; by default, the Pulumi stack."""
    # The name of another program's stack need not be one of this project's.
    settings = Settings(stack="other").model_copy(update={"stack": stack_label(stack), **sections})
    return StackObjects(settings, inputs)


def refuse_checkout(run: Workload) -> None:
    """Raise RunError if a run needs files of a checkout or the launches of a stack."""
    needs = {
        "image.build": run.image.name is None,
        "data": run.data is not None,
        "dependsOn": bool(run.depends_on),
    }
    if refused_keys := ", ".join(key for key, is_needed in needs.items() if is_needed):
        raise pulumi.RunError(
            f"run {run.name}: {refused_keys} requires a checkout of the trainstack project; set image.name, and leave "
            "out data and dependsOn"
        )


def launch_groups(settings: Settings) -> tuple[LaunchGroup, ...]:
    """Return the launches of the runs, then those of each sweep. Raises RunError if a launch cannot be built."""
    wrapper = files("trainstack.runs.wrapper").joinpath("run.py").read_text(encoding="utf-8")
    try:
        groups = StackObjects(settings, Inputs(wrapper=wrapper)).launches
        for group in groups:
            _ = group.ledger_config_maps  # a ledger may exceed the size of a ConfigMap
    except WorkloadError as error:
        raise pulumi.RunError(str(error)) from error
    return groups
