"""The environment that objects are converted into: its file, if it is new, and what it declares already."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from trainstack.onboarding.convert.conversion import Target
from trainstack.onboarding.convert.documents import InputObject
from trainstack.onboarding.convert.kinds import ENTRIES, disposition
from trainstack.onboarding.yaml_additions import FileAddition, add_section_entries
from trainstack.settings.loading.bases import workload_files
from trainstack.settings.loading.load import DEFAULTS, LoadedEnvironment
from trainstack.settings.loading.sweep_files import list_sweeps
from trainstack.settings.sections.environment import Environment

ENVIRONMENT_HEAD = "# Objects that `trainstack convert` has read from YAML files.\n"
_DEFAULT_NAMESPACE = "default"


def default_text(objects: Sequence[InputObject], namespace: str | None) -> str:
    """Return the text of a new environment for the objects.

    Its owner may declare cluster-scoped objects only if the files have some.
    """
    sources = [source for source in objects if _is_of_platform(source)]
    names = dict.fromkeys(filter(None, (namespace, *(source.namespace for source in objects))))
    tenant = [
        FileAddition(("environment", "profile"), "tenant", replaces_value=True),
        FileAddition(("environment", "layers"), "training"),
    ]
    entries = [
        *([] if sources else tenant),
        *(FileAddition(("environment", "existing", "namespaces"), name) for name in names),
        # The priority classes of defaults.yaml are for clusters whose queues the environment declares.
        FileAddition(("queues", "priorityClasses"), None, replaces_value=True),
    ]
    return add_section_entries("config:\n", entries)


def _is_of_platform(source: InputObject) -> bool:
    key = (source.group, source.kind)
    return (key in ENTRIES and "namespace" not in ENTRIES[key].model.model_fields) or source.kind == "LocalQueue"


def environment_target(
    root: Path, loaded: LoadedEnvironment, namespace: str | None, objects: Iterable[InputObject]
) -> Target:
    """Return what the environment declares. `namespace`: that of objects without one, if the user has named it."""
    settings = loaded.settings
    priorities = [priority.name for priority in settings.queues.priority_classes]
    places = {name: loaded.place_of(f"queues.priorityClasses[{name}]") for name in priorities}
    names = {
        *(run.name for run in settings.workloads.runs),
        *(sweep.name for sweep in settings.sweeps.sweeps),
        *workload_files(root),
        *list_sweeps(root),
    }
    return Target(
        settings=settings,
        namespace=namespace or _only_namespace(settings.environment, objects),
        workload_names=frozenset(names),
        shared_priorities=frozenset(name for name, place in places.items() if place and place.file == DEFAULTS),
    )


def _only_namespace(environment: Environment, objects: Iterable[InputObject]) -> str | None:
    """Return the namespace that the environment and the objects have, if it is only one."""
    names = {namespace.name for namespace in environment.namespaces} | {*environment.existing.namespaces}
    names |= {
        source.namespace
        for source in objects
        if source.namespace and disposition((source.group, source.kind)) != "left"
    }
    return names.pop() if len(names) == 1 else _DEFAULT_NAMESPACE if not names else None
