"""The operators and frameworks that converted workloads need in an environment that installs Kueue."""

from collections.abc import Iterable, Iterator

from pydantic.alias_generators import to_camel

from trainstack.onboarding.convert.documents import InputObject
from trainstack.onboarding.convert.kinds import OTHER_WORKLOADS
from trainstack.onboarding.yaml_additions import FileAddition
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.settings.sections.operators import Operators

_ALSO_NEEDED = {"trainer": ("jobset",)}
"""The operators that other ones use."""


def needed_operators(sources: Iterable[InputObject], operators: Operators) -> Iterator[tuple[FileAddition, str]]:
    """Yield the missing entries of the section `operators`, each with the reason; none without an install of Kueue."""
    if operators.kueue is None:
        return
    listed = operators.kueue.configuration.frameworks
    frameworks, names = dict[str, InputObject](), dict[str, InputObject]()
    for source in sources:
        framework, operator = _requirements(source)
        frameworks.setdefault(framework, source)
        for name in (operator, *_ALSO_NEEDED.get(operator, ())) if operator else ():
            names.setdefault(name.replace("-", "_"), source)
    for name, source in names.items():
        if name in Operators.model_fields and getattr(operators, name) is None:
            key = to_camel(name)
            note = f"operators.{key} is added, which {source.identity} needs"
            yield FileAddition(("operators", key), {}, replaces_value=True), note
    if new := [framework for framework in frameworks if framework not in listed]:
        identities = ", ".join(frameworks[name].identity for name in new)
        note = f"{', '.join(new)} is added to Kueue's frameworks for {identities}"
        path = ("operators", "kueue", "configuration", "frameworks")
        yield FileAddition(path, [*listed, *new], replaces_value=True), note


def _requirements(source: InputObject) -> tuple[str, str]:
    """Return the framework of a workload's kind, and the name of its operator; empty if it needs none."""
    other = OTHER_WORKLOADS.get((source.group, source.kind))
    if other is not None:
        return other.framework, "training-operator" if other.replica_specs else ""
    kind = WORKLOAD_KINDS[source.kind]
    return kind.framework, kind.operator or ""
