import re
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.output.console import err, fail, out, show_json, show_steps, step
from trainstack.cli.session import DryRunOption, JsonOption, Session, StackOption
from trainstack.cli.stack_selection import creation_steps
from trainstack.errors import ExitCode, TrainstackError
from trainstack.files.project import ProjectEdit, edit_project
from trainstack.live.adoption import read_namespace_objects
from trainstack.onboarding import project_files as staging
from trainstack.onboarding.adopt.entries import PRIORITY_CLASS
from trainstack.onboarding.adopt.namespace_objects import NamespaceObjects
from trainstack.onboarding.adopt.plan import Adoption, describe_operators, plan_adoption
from trainstack.onboarding.yaml_additions import FileAddition, add_section_entries
from trainstack.settings.loading.load import DEFAULTS, LoadedEnvironment

_NAMESPACE = re.compile("(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HEAD = """\
# The objects that existed in namespace {namespace} before this stack.
config:
"""


def adopt(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="A namespace of the cluster.")],
    *,
    stack: StackOption,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the existing volumes and queues of a namespace into an environment, which then manages them.

    Adopts only objects that the settings describe exactly, and names the unsupported field of any other. Lists shared
    classes, the namespace itself and installed operators without adopting them. Only reads the cluster: the next
    `pulumi up` adds the stack's labels and annotations to the objects and changes nothing else. Creates Pulumi.ENV.yaml
    or adds to it, keeping comments and order.

    Examples:
      trainstack adopt vision -s lab --dry-run
      trainstack adopt vision -s lab
      trainstack adopt vision -s lab --json
    """
    session = Session.open(stack)
    if not _NAMESPACE.fullmatch(namespace):
        message = f"{namespace!r} is not a valid namespace name; use at most 63 lower-case letters, digits and '-'"
        fail(message, ExitCode.USAGE)
    file = f"Pulumi.{stack}.yaml"
    with edit_project(session.root) as edit:
        _, loaded = _load_environment(edit, session.root, file, stack, namespace)
    with step(f"reading namespace {namespace}", "1 s"):
        owner = loaded.settings.environment.profile == "owner"
        existing_objects = read_namespace_objects(namespace, loaded.settings.cluster.context, cluster_wide=owner)
    if existing_objects is None:
        fail(f"the cluster has no namespace {namespace}; to list namespaces: kubectl get namespaces")
    # Other commands may have changed the file while the cluster was read.
    with edit_project(session.root) as edit:
        text, loaded = _load_environment(edit, session.root, file, stack, namespace)
        file_exists = edit.read(file) is not None
        adoption = plan_adoption(loaded.settings, existing_objects, _default_priority_classes(loaded))
        changed_files = (
            {file: _text_with_adopted(file, text, loaded, adoption, existing_objects, file_exists=file_exists)}
            if adoption.adopted_objects
            else {}
        )
        if changed_files and (faults := staging.find_faults(session.root, changed_files, stack)):
            fail("\n".join(["nothing was written, since the result would have errors:", *faults]))
        diff = staging.unified_diff_of(session.root, changed_files)
        if not dry_run:
            edit.write(changed_files)
    notes = [
        *adoption.notes,
        *(f"{operator} exists and is managed by its installer" for operator in describe_operators(existing_objects)),
    ]
    if as_json:
        show_json(
            {
                "taken": adoption.adopted_objects,
                "left": adoption.reasons_by_object,
                "notes": notes,
                "written": [] if dry_run else sorted(changed_files),
                "diff": diff,
            }
        )
    else:
        # Whoever wrote the environment has created its stack, or has an embedded state.
        stack_creation = [] if file_exists else creation_steps(stack)
        _show(stack, namespace, adoption, notes, diff, stack_creation, dry_run=dry_run)


def _load_environment(
    edit: ProjectEdit, root: Path, file: str, stack: str, namespace: str
) -> tuple[str, LoadedEnvironment]:
    """Load the environment; a new one if the file does not exist."""
    text = edit.read(file)
    if not text:
        namespace_entry = FileAddition(("environment", "existing", "namespaces"), namespace)
        text = add_section_entries(_HEAD.format(namespace=namespace), [namespace_entry])
    return text, staging.load_changed_project(root, {file: text}, stack)


def _text_with_adopted(
    file: str,
    text: str,
    loaded: LoadedEnvironment,
    adoption: Adoption,
    existing_objects: NamespaceObjects,
    *,
    file_exists: bool,
) -> str:
    """Return the environment's file with the adopted objects. `file_exists`: whether the file does."""
    entries = [*adoption.entries, *_operators_entry(existing_objects, text, loaded)]
    if not file_exists and not any(entry.path == PRIORITY_CLASS.path for entry in adoption.entries):
        comment = "Without the priority classes of defaults.yaml."
        entries.append(FileAddition(("queues", "priorityClasses"), None, replaces_value=True, comment=comment))
    try:
        return add_section_entries(text, entries)
    except TrainstackError as error:
        return fail(f"{file}: {error}")


def _default_priority_classes(loaded: LoadedEnvironment) -> list[str]:
    names = [priority.name for priority in loaded.settings.queues.priority_classes]
    places = {name: loaded.place_of(f"queues.priorityClasses[{name}]") for name in names}
    return [name for name, place in places.items() if place is not None and place.file == DEFAULTS]


def _operators_entry(existing_objects: NamespaceObjects, text: str, loaded: LoadedEnvironment) -> list[FileAddition]:
    operator_names = list(describe_operators(existing_objects))
    if not operator_names or "trainstack:operators" in text or "platform" not in loaded.settings.environment.layers:
        return []
    comment = "Installed operators, managed by their installers:\n" + "\n".join(operator_names)
    return [FileAddition(("operators",), {}, replaces_value=True, comment=comment)]


def _show(
    stack: str,
    namespace: str,
    adoption: Adoption,
    notes: list[str],
    diff: str,
    stack_creation: list[str],
    *,
    dry_run: bool,
) -> None:
    out.print(diff, end="")
    for name in adoption.adopted_objects:
        err.print(f"adopted: {name}")
    for name, reason in adoption.reasons_by_object.items():
        err.print(f"not adopted: {name}: {reason}", style="yellow")
    for note in notes:
        err.print(note)
    if not adoption.adopted_objects:
        out.print(f"no object of namespace {namespace} can be adopted; no file was changed")
        return
    steps = [
        f"git diff, and git add Pulumi.{stack}.yaml",
        f"trainstack check -s {stack}",
        *stack_creation,
        f"pulumi preview -s {stack} (creates are adoptions; there must be no replacement or deletion)",
        f"pulumi up -s {stack}",
        f"pulumi preview -s {stack} --refresh --expect-no-changes",
    ]
    show_steps("Written; the cluster was not changed. Next", steps, dry_run=dry_run)
