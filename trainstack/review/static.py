"""The difference between two checkouts, from their files alone: for pull requests whose code must not be run.

The code that reads and renders is this checkout's own. Of the other one only data is read, and only what lies in it:
no link leads out of it, and neither does a path in a setting.
"""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainstack.objects.labels import LAUNCH, LEDGER, RUN, SET, WORKLOAD, Manifest
from trainstack.platform.retained import retained
from trainstack.review.admission import verdicts
from trainstack.review.bounded import BoundError, bounded
from trainstack.review.declared import as_yaml, declared
from trainstack.review.diff import OBJECT
from trainstack.review.facts import Step, View, facts
from trainstack.review.report import MOST_CHARACTERS, Counts, Report, ReportedFact
from trainstack.review.text import clean
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.settings.values.stack_name import misnamed, stacks

Objects = Mapping[str, Manifest]
"""By what an object is to people: kind and name, and for a launch the workload, since its name is a hash."""


_NOT_READ = (".git", ".trainstack", ".venv")
"""Folders at the top of a checkout that hold no settings."""


class UnsafeError(Exception):
    """A checkout whose files lead out of it."""


def reviewed(base: Path, head: Path, stack: str, pull: int | None) -> Report:
    """As `static`, within the limits of `review.bounded`: going beyond them is the error of the report."""
    try:
        return bounded(static, base, head, stack, pull)
    except BoundError as error:
        message = f"Pulumi.{stack}.yaml, with the files that it names, is not reviewed: its review {error}"
        return Report(kind="static", stack=stack, pull=pull, error=message)


def static(base: Path, head: Path, stack: str, pull: int | None) -> Report:
    """What an environment gains and loses between two checkouts. What goes wrong with `head` is in the report."""
    try:
        contain(head)
        before, earlier = _objects(base, stack)
        after, settings = _objects(head, stack)
    except (UnsafeError, SettingsError, ValueError, OSError) as error:
        return Report(kind="static", stack=stack, pull=pull, error=clean(str(error))[:100_000])
    changed = list(_steps(before, after, earlier))
    counts = Counts(
        create=sum(step.op == "create" for step in changed),
        update=sum(step.op == "update" for step in changed),
        replace=sum(step.op == "replace" for step in changed),
        delete=sum(step.op == "delete" for step in changed),
        same=len(before.keys() & after.keys()) - sum(step.op in ("update", "replace") for step in changed),
    )
    stop = settings.workloads.stop if settings else ()
    found = facts(changed, View(live=False, stop=stop))
    return Report(
        kind="static",
        stack=stack,
        pull=pull,
        counts=counts,
        facts=tuple(ReportedFact.of(fact) for fact in found),
        verdicts=verdicts(settings) if settings else (),
        diff=difference(before, after)[:MOST_CHARACTERS],
    )


def environments(base: Path, head: Path) -> tuple[str, ...]:
    """The environments of either checkout, sorted."""
    return tuple(sorted({*stacks(base), *stacks(head)}))


def misnamed_files(base: Path, head: Path) -> tuple[str, ...]:
    """Return the errors of files in either checkout whose names make them invalid as environments."""
    return tuple(sorted({clean(str(each)) for each in (*misnamed(base), *misnamed(head))}))


def difference(before: Objects, after: Objects) -> str:
    """A unified diff of the objects' YAML, object by object, in the order of their creation."""
    lines: list[str] = []
    for key in dict.fromkeys((*after, *before)):
        old, new = before.get(key), after.get(key)
        if old != new:
            texts = [as_yaml([each]).splitlines() if each is not None else [] for each in (old, new)]
            changes = list(difflib.unified_diff(texts[0], texts[1], lineterm=""))
            lines += [f"{OBJECT}{key}", *changes[2:]]
    return "\n".join(lines)


def contain(root: Path) -> None:
    """Raise UnsafeError where a link of a checkout leads out of it."""
    inside = root.resolve()
    for path in root.rglob("*"):
        if path.relative_to(root).parts[0] in _NOT_READ:
            continue
        if path.is_symlink() and not _resolved(path).is_relative_to(inside):
            raise UnsafeError(f"{path.relative_to(root)}: a link that leads out of the repository; nothing was read")


def _resolved(path: Path) -> Path:
    """Where a path leads in the end. Raises UnsafeError for links that lead in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UnsafeError(f"{path.name}: the link cannot be resolved ({error}); nothing was read") from None


def _objects(root: Path, stack: str) -> tuple[Objects, Settings | None]:
    """What the checkout declares; nothing where it has no such environment."""
    if stack not in stacks(root):
        return {}, None
    settings = load(root, stack)
    _contain_paths(root, settings)
    # Without a commit, which differs always; without releases, which are large and lie in no checkout.
    objects = declared(root, stack, commit="", releases=False)
    return {_key(each): each for each in objects if LEDGER not in _labels(each)}, settings


def _contain_paths(root: Path, settings: Settings) -> None:
    inside = root.resolve()
    for _, run in settings.trained():
        for name in (run.image.build, run.data.manifest if run.data is not None else None):
            if name is not None and not _resolved(root / name).is_relative_to(inside):
                raise UnsafeError(f"workload {run.name}: the path {name} leads out of the repository; nothing was read")


def _steps(before: Objects, after: Objects, settings: Settings | None) -> Iterator[Step]:
    """`settings`: of the base, which says what outlives its deletion."""
    kept = {(each.kind, each.namespace, each.name) for each in retained(settings)} if settings is not None else set()
    for key in dict.fromkeys((*after, *before)):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        metadata = (old or new or {})["metadata"]
        renamed = old is not None and new is not None and _name(old) != _name(new)
        yield Step(
            op="create" if old is None else "delete" if new is None else "replace" if renamed else "update",
            old=old,
            new=new,
            retained=old is not None and (old["kind"], metadata.get("namespace"), metadata.get("name")) in kept,
        )


def _key(body: Manifest) -> str:
    metadata, labels = body["metadata"], _labels(body)
    launched = " ".join(filter(None, ["workload", labels.get(WORKLOAD), labels.get(SET)]))
    name = launched if RUN in labels else metadata["name"]
    return " ".join([body["kind"], "/".join(filter(None, [metadata.get("namespace"), name]))])


def _name(body: Manifest) -> str:
    """The object's name; of a launch that it is of, whatever its object is called."""
    return str(_labels(body).get(LAUNCH) or body["metadata"]["name"])


def _labels(body: Manifest) -> Mapping[str, str]:
    return body["metadata"].get("labels") or {}
