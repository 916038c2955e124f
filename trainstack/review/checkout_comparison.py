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
from trainstack.platform.retained import list_retained_objects
from trainstack.printable import clean
from trainstack.review.admission import reported_admission
from trainstack.review.bounded_process import BoundError, run_bounded
from trainstack.review.checkout_manifests import as_yaml, checkout_manifests
from trainstack.review.diff import OBJECT_PREFIX
from trainstack.review.facts import ChangeStep, RunContext, find_facts, labels_of
from trainstack.review.report import MAX_DIFF, MAX_ERROR, Counts, Report, ReportedFact
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.settings.values.stack_name import list_stacks, misnamed_stack_findings

Objects = Mapping[str, Manifest]
"""Manifests by kind and name, or by the workload's name for a launch, whose own name has a hash."""

_SKIPPED_FOLDERS = (".git", ".trainstack", ".venv")
"""Folders in the root of a checkout that contain no settings."""


class UnsafeError(TrainstackError):
    """A checkout refers to files outside it."""


def review_checkouts(base: Path, head: Path, stack: str, pull: int | None) -> Report:
    """Call `compare_checkouts` with the limits of `run_bounded`; if it exceeds them, the report has an error."""
    try:
        return run_bounded(compare_checkouts, base, head, stack, pull)
    except BoundError as error:
        message = f"Pulumi.{stack}.yaml and the files that it refers to are not reviewed: the review {error}"
        return Report(kind="static", stack=stack, pull=pull, error=message)


def compare_checkouts(base: Path, head: Path, stack: str, pull: int | None) -> Report:
    """Return the report on an environment's changes between two checkouts.

    An error in either checkout becomes the error of the report.
    """
    try:
        refuse_outside_links(head)
        base_objects, base_settings = _read_objects(base, stack)
        head_objects, head_settings = _read_objects(head, stack)
    except (TrainstackError, OSError) as error:
        return Report(kind="static", stack=stack, pull=pull, error=clean(str(error))[:MAX_ERROR])
    steps = list(_changed_steps(base_objects, head_objects, base_settings))
    ops = Counter(str(step.op) for step in steps)
    # A replacement of a launch has a key in both checkouts, as an update has.
    unchanged_count = len(base_objects.keys() & head_objects.keys()) - ops["update"] - ops["replace"]
    stop = head_settings.workloads.stop if head_settings else ()
    effects = find_facts(steps, RunContext(live=False, stop=stop))
    return Report(
        kind="static",
        stack=stack,
        pull=pull,
        counts=Counts(**ops, same=unchanged_count),
        facts=tuple(ReportedFact.from_fact(fact) for fact in effects),
        **(reported_admission(head_settings) if head_settings else {}),
        diff=manifest_diff(base_objects, head_objects)[:MAX_DIFF],
    )


def environment_names(base: Path, head: Path) -> tuple[str, ...]:
    """Return the names of the environments in either checkout, sorted."""
    return tuple(sorted({*list_stacks(base), *list_stacks(head)}))


def misnamed_file_errors(base: Path, head: Path) -> tuple[str, ...]:
    """Return the errors of the environment files with invalid names in either checkout, sorted."""
    return tuple(
        sorted({clean(str(finding)) for finding in (*misnamed_stack_findings(base), *misnamed_stack_findings(head))})
    )


def manifest_diff(base_objects: Objects, head_objects: Objects) -> str:
    """Return the unified diffs of the objects' YAML, in the order of their creation."""
    lines: list[str] = []
    for key in dict.fromkeys((*head_objects, *base_objects)):
        old, new = base_objects.get(key), head_objects.get(key)
        if old != new:
            texts = [as_yaml([body]).splitlines() if body is not None else [] for body in (old, new)]
            changes = list(difflib.unified_diff(texts[0], texts[1], lineterm=""))
            lines += [f"{OBJECT_PREFIX}{key}", *changes[2:]]
    return "\n".join(lines)


def refuse_outside_links(root: Path) -> None:
    """Raise UnsafeError if a symbolic link in a checkout has a target outside it."""
    resolved_root = root.resolve()
    for path in root.rglob("*"):
        if path.relative_to(root).parts[0] in _SKIPPED_FOLDERS:
            continue
        if path.is_symlink() and not _resolve(path).is_relative_to(resolved_root):
            name = path.relative_to(root)
            raise UnsafeError(f"{name}: symbolic link to a target outside the repository; nothing was read")


def _resolve(path: Path) -> Path:
    """Resolve the symbolic links of a path. Raises UnsafeError for a cycle."""
    try:
        # From Python 3.13 on, `resolve` accepts a cycle; `stat` does not. A missing target is no error.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UnsafeError(f"{path.name}: the symbolic link cannot be resolved ({error}); nothing was read") from None


def _read_objects(root: Path, stack: str) -> tuple[Objects, Settings | None]:
    """Return the declared objects and the settings; empty and None if the checkout lacks the environment."""
    if stack not in list_stacks(root):
        return {}, None
    settings = load(root, stack)
    _refuse_outside_paths(root, settings)
    # The commit always differs, and no checkout contains the releases.
    objects = checkout_manifests(root, stack, commit="", with_releases=False)
    return {_object_key(body): body for body in objects if LEDGER not in labels_of(body)}, settings


def _refuse_outside_paths(root: Path, settings: Settings) -> None:
    resolved_root = root.resolve()
    for _, run in settings.runs_and_trials():
        for name in (run.image.build, run.data.manifest if run.data is not None else None):
            if name is not None and not _resolve(root / name).is_relative_to(resolved_root):
                raise UnsafeError(f"workload {run.name}: the path {name} is outside the repository; nothing was read")


def _changed_steps(
    base_objects: Objects, head_objects: Objects, base_settings: Settings | None
) -> Iterator[ChangeStep]:
    """Yield the changes; the settings of the base determine which deleted objects remain in the cluster."""
    retained_identities = (
        {item.identity for item in list_retained_objects(base_settings)} if base_settings is not None else set()
    )
    for key in dict.fromkeys((*head_objects, *base_objects)):
        old, new = base_objects.get(key), head_objects.get(key)
        if old == new:
            continue
        metadata = (old or new or {})["metadata"]
        is_renamed = old is not None and new is not None and _object_name(old) != _object_name(new)
        yield ChangeStep(
            op="create" if old is None else "delete" if new is None else "replace" if is_renamed else "update",
            old=old,
            new=new,
            retained=old is not None
            and (old["kind"], metadata.get("namespace"), metadata.get("name")) in retained_identities,
        )


def _object_key(body: Manifest) -> str:
    metadata, labels = body["metadata"], labels_of(body)
    launch_name = " ".join(filter(None, ["workload", labels.get(WORKLOAD), labels.get(SET)]))
    name = launch_name if RUN in labels else metadata["name"]
    return " ".join([body["kind"], "/".join(filter(None, [metadata.get("namespace"), name]))])


def _object_name(body: Manifest) -> str:
    return str(labels_of(body).get(LAUNCH) or body["metadata"]["name"])
