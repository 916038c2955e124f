"""The difference between two checkouts by their files alone, for pull requests whose code must not be executed.

Only the code of this checkout is executed. The other checkout is data; links and paths to files outside it are refused.
"""

import contextlib
import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainstack.errors import TrainstackError
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, SET, WORKLOAD, Manifest
from trainstack.platform.retained import retained
from trainstack.printable import clean
from trainstack.review.admission import verdicts
from trainstack.review.bounded import BoundError, bounded
from trainstack.review.declared import as_yaml, declared
from trainstack.review.diff import OBJECT
from trainstack.review.facts import Step, View, facts, labels_of
from trainstack.review.report import MAX_DIFF, MAX_ERROR, Counts, Report, ReportedFact
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.settings.values.stack_name import misnamed, stacks

Objects = Mapping[str, Manifest]
"""Manifests by kind and name, or by the workload's name for a launch, whose own name has a hash."""

_SKIPPED = (".git", ".trainstack", ".venv")
"""Folders in the root of a checkout that contain no settings."""


class UnsafeError(TrainstackError):
    """A checkout refers to files outside it."""


def reviewed(base: Path, head: Path, stack: str, pull: int | None) -> Report:
    """Call `compare_checkouts` with the limits of `run_bounded`; if it exceeds them, the report has an error."""
    try:
        return bounded(static, base, head, stack, pull)
    except BoundError as error:
        message = f"Pulumi.{stack}.yaml and the files that it refers to are not reviewed: the review {error}"
        return Report(kind="static", stack=stack, pull=pull, error=message)


def static(base: Path, head: Path, stack: str, pull: int | None) -> Report:
    """Return the report on an environment's changes between two checkouts.

    An error in either checkout becomes the error of the report.
    """
    try:
        contain(head)
        before, earlier = _objects(base, stack)
        after, settings = _objects(head, stack)
    except (TrainstackError, OSError) as error:
        return Report(kind="static", stack=stack, pull=pull, error=clean(str(error))[:MAX_ERROR])
    changed = list(_steps(before, after, earlier))
    ops = Counter(str(step.op) for step in changed)
    # A replacement of a launch has a key in both checkouts, as an update has.
    same = len(before.keys() & after.keys()) - ops["update"] - ops["replace"]
    stop = settings.workloads.stop if settings else ()
    found = facts(changed, View(live=False, stop=stop))
    return Report(
        kind="static",
        stack=stack,
        pull=pull,
        counts=Counts(**ops, same=same),
        facts=tuple(ReportedFact.of(fact) for fact in found),
        verdicts=verdicts(settings) if settings else (),
        diff=difference(before, after)[:MAX_DIFF],
    )


def environments(base: Path, head: Path) -> tuple[str, ...]:
    """Return the names of the environments in either checkout, sorted."""
    return tuple(sorted({*stacks(base), *stacks(head)}))


def misnamed_files(base: Path, head: Path) -> tuple[str, ...]:
    """Return the errors of the environment files with invalid names in either checkout, sorted."""
    return tuple(sorted({clean(str(finding)) for finding in (*misnamed(base), *misnamed(head))}))


def difference(before: Objects, after: Objects) -> str:
    """Return the unified diffs of the objects' YAML, in the order of their creation."""
    lines: list[str] = []
    for key in dict.fromkeys((*after, *before)):
        old, new = before.get(key), after.get(key)
        if old != new:
            texts = [as_yaml([body]).splitlines() if body is not None else [] for body in (old, new)]
            changes = list(difflib.unified_diff(texts[0], texts[1], lineterm=""))
            lines += [f"{OBJECT}{key}", *changes[2:]]
    return "\n".join(lines)


def contain(root: Path) -> None:
    """Raise UnsafeError if a symbolic link in a checkout has a target outside it."""
    inside = root.resolve()
    for path in root.rglob("*"):
        if path.relative_to(root).parts[0] in _SKIPPED:
            continue
        if path.is_symlink() and not _resolved(path).is_relative_to(inside):
            name = path.relative_to(root)
            raise UnsafeError(f"{name}: symbolic link to a target outside the repository; nothing was read")


def _resolved(path: Path) -> Path:
    """Resolve the symbolic links of a path. Raises UnsafeError for a cycle."""
    try:
        # From Python 3.13 on, `resolve` accepts a cycle; `stat` does not. A missing target is no error.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UnsafeError(f"{path.name}: the symbolic link cannot be resolved ({error}); nothing was read") from None


def _objects(root: Path, stack: str) -> tuple[Objects, Settings | None]:
    """Return the declared objects and the settings; empty and None if the checkout lacks the environment."""
    if stack not in stacks(root):
        return {}, None
    settings = load(root, stack)
    _contain_paths(root, settings)
    # The commit always differs, and no checkout contains the releases.
    objects = declared(root, stack, commit="", releases=False)
    return {_key(body): body for body in objects if LEDGER not in labels_of(body)}, settings


def _contain_paths(root: Path, settings: Settings) -> None:
    inside = root.resolve()
    for _, run in settings.trained():
        for name in (run.image.build, run.data.manifest if run.data is not None else None):
            if name is not None and not _resolved(root / name).is_relative_to(inside):
                raise UnsafeError(f"workload {run.name}: the path {name} is outside the repository; nothing was read")


def _steps(before: Objects, after: Objects, settings: Settings | None) -> Iterator[Step]:
    """Yield the changes; the settings of the base determine which deleted objects remain in the cluster."""
    kept = {item.identity for item in retained(settings)} if settings is not None else set()
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
    metadata, labels = body["metadata"], labels_of(body)
    launched = " ".join(filter(None, ["workload", labels.get(WORKLOAD), labels.get(SET)]))
    name = launched if RUN in labels else metadata["name"]
    return " ".join([body["kind"], "/".join(filter(None, [metadata.get("namespace"), name]))])


def _name(body: Manifest) -> str:
    return str(labels_of(body).get(LAUNCH) or body["metadata"]["name"])
