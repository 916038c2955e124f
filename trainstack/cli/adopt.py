"""`trainstack adopt`: what people made by hand in a namespace becomes part of an environment."""

import re
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.console import err, fail, out, show_json, step
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.live.client import ClusterError
from trainstack.live.existing import read_existing
from trainstack.onboarding import project_files as staging
from trainstack.onboarding.adopt.entries import PRIORITY_CLASS
from trainstack.onboarding.adopt.found import Found
from trainstack.onboarding.adopt.plan import Adoption, operators
from trainstack.onboarding.adopt.plan import adopt as plan
from trainstack.onboarding.editing import Entry, with_entries
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.files import read_text
from trainstack.settings.loading.load import DEFAULTS, Loaded

_NAMESPACE = re.compile("(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HEAD = """\
# What people had made in namespace {namespace}, as it was found.
config:
"""


def adopt(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="A namespace of the cluster.")],
    *,
    stack: StackOption = "dev",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change, write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the volumes and queues of a namespace, as they are, into an environment that takes them over.

    Only what the settings can say exactly is taken: an object with another field is left as it is, and named with that
    field. The cluster is only read; the next `pulumi up` puts our mark on the objects and changes nothing else of
    them. Classes that others use too, the namespace itself and installed operators are only named. Pulumi.ENV.yaml is
    made where it is not there, else added to; comments and order stay.

    Examples:

      trainstack adopt vision -s lab --dry-run

      trainstack adopt vision -s lab

      trainstack adopt vision -s lab --json
    """
    session = Session.open(stack)
    _must_be_a_name(namespace)
    file = f"Pulumi.{stack}.yaml"
    there = (session.root / file).is_file()
    text, loaded = _before(session.root, file, stack, namespace)
    try:
        with step(f"reading namespace {namespace}", "1 s"):
            owner = loaded.settings.environment.profile == "owner"
            found = read_existing(namespace, loaded.settings.cluster.context, cluster_wide=owner)
    except ClusterError as error:
        fail(str(error))
    if found is None:
        fail(f"the cluster has no namespace {namespace}; see which there are: kubectl get namespaces")
    adoption = plan(loaded.settings, found, _shared(loaded))
    more = _operators_entry(found, text, loaded)
    if not there and not any(entry.path == PRIORITY_CLASS.path for entry in adoption.entries):
        comment = "defaults.yaml brings some, which nobody here asked for."
        more.append(Entry(("queues", "priorityClasses"), None, whole=True, comment=comment))
    if not adoption.taken:
        more = []
    changed = {}
    if adoption.taken:
        try:
            changed = {file: with_entries(text, [*adoption.entries, *more])}
        except ValueError as error:
            fail(f"{file}: {error}")
        if faults := staging.faults(session.root, changed, stack):
            fail("\n".join(["nothing is written, since the result would have faults:", *faults]))
    shown = staging.diff(session.root, changed)
    if changed and not dry_run:
        staging.write(session.root, changed)
    if as_json:
        show_json(
            {
                "taken": adoption.taken,
                "left": adoption.left,
                "notes": [*adoption.notes, *map(_of_others, operators(found))],
                "written": [] if dry_run else sorted(changed),
                "diff": shown,
            }
        )
    else:
        _tell(stack, adoption, found, shown, dry_run=dry_run)


def _must_be_a_name(namespace: str) -> None:
    if not _NAMESPACE.fullmatch(namespace):
        fail(f"{namespace!r} is not a valid namespace name; use at most 63 lower-case letters, digits and '-'")


def _before(root: Path, file: str, stack: str, namespace: str) -> tuple[str, Loaded]:
    """The file's text and the environment as they are; for an environment that is not there, an empty one."""
    try:
        text = read_text(root / file) if (root / file).exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file}: the file cannot be read: {getattr(error, 'strerror', None) or error}")
    if not text:
        known = Entry(("environment", "existing", "namespaces"), namespace)
        text = with_entries(_HEAD.format(namespace=namespace), [known])
    try:
        return text, staging.load(root, {file: text}, stack)
    except SettingsError as error:
        return fail(str(error))


def _shared(loaded: Loaded) -> list[str]:
    """The priority classes that defaults.yaml alone declares."""
    names = [one.name for one in loaded.settings.queues.priority_classes]
    where = {name: loaded.where(f"queues.priorityClasses[{name}]") for name in names}
    return [name for name, place in where.items() if place is not None and place.file == DEFAULTS]


def _operators_entry(found: Found, text: str, loaded: Loaded) -> list[Entry]:
    said = list(operators(found))
    if not said or "trainstack:operators" in text or "platform" not in loaded.settings.environment.halves:
        return []
    comment = "There already, and left to whoever installed them:\n" + "\n".join(said)
    return [Entry(("operators",), {}, whole=True, comment=comment)]


def _of_others(operator: str) -> str:
    return f"{operator} is there already, and left to whoever installed it"


def _tell(stack: str, adoption: Adoption, found: Found, shown: str, *, dry_run: bool) -> None:
    out.print(shown, markup=False, end="")
    for name in adoption.taken:
        err.print(f"is taken over: {name}", markup=False)
    for name, why in adoption.left.items():
        err.print(f"is left as it is: {name}: {why}", markup=False, style="yellow")
    for note in (*adoption.notes, *map(_of_others, operators(found))):
        err.print(note, markup=False)
    if not adoption.taken:
        out.print(f"nothing of namespace {found.namespace} is taken over; no file is changed", markup=False)
        return
    steps = [
        f"git diff, and git add Pulumi.{stack}.yaml",
        f"pulumi preview -s {stack} (what it creates is taken over; it replaces and deletes nothing)",
        f"pulumi up -s {stack}",
        f"pulumi preview -s {stack} --refresh --expect-no-changes",
    ]
    head = "Nothing is written (--dry-run). Without it, then" if dry_run else "Written; the cluster is as it was. Next"
    err.print(f"{head}:\n" + "\n".join(f"  {each}" for each in steps), markup=False)
