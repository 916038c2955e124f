import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from trainstack.cli.output.console import err, fail, make_table, out, show, show_json, show_steps
from trainstack.cli.session import DryRunOption, JsonOption, Session, StackOption
from trainstack.cli.stack_selection import creation_steps
from trainstack.errors import ExitCode, TrainstackError, describe_os_error
from trainstack.files.project import ProjectEdit, edit_project
from trainstack.files.regular import read_bytes
from trainstack.onboarding import project_files as staging
from trainstack.onboarding.convert.conversion import Conversion, convert_objects
from trainstack.onboarding.convert.documents import InputObject, SourceText, read_objects
from trainstack.onboarding.convert.environment import ENVIRONMENT_HEAD, default_text, environment_target
from trainstack.onboarding.convert.outcomes import ConvertedObject
from trainstack.onboarding.convert.result import CheckedObject, check_conversion
from trainstack.onboarding.yaml_additions import add_section_entries
from trainstack.settings.values.stack_name import stack_file

_STDIN = "-"
_SUFFIXES = (".json", ".yaml", ".yml")
_MAX_BYTES = 64 << 20
"""The maximum size of a file to convert, 64 MiB: about 20,000 Jobs as kubectl prints them."""
_MAX_LISTED_OBJECTS = 4
"""Objects with the same row in the table that are listed by name."""


def convert(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="YAML or JSON files, folders of such files, or `-` for the standard input."
        ),
    ],
    *,
    stack: StackOption,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", metavar="NAMESPACE", help="The namespace of objects that name none."),
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Make one sweep of Jobs that differ in names, arguments and variables only.")
    ] = False,
    native: Annotated[
        bool,
        typer.Option("--native", help="Write settings instead of a manifest for Jobs of which they say everything."),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert Kubernetes YAML into workloads and entries of an environment, without losing a field.

    Reads several documents per file, lists as `kubectl get -o yaml` prints them, output of kustomize, and rendered Helm
    charts. Writes a workload for each Job or other training object, whose manifest is the object as it is, and the
    environment's entries: runs, volumes, queues and other objects. Overwrites no file, and keeps the comments of
    Pulumi.ENV.yaml. Then renders the result and compares it with the input, field by field. Exits with 4 if an object
    is left out or a field would be lost; in the latter case, writes nothing. Reads no cluster.

    Examples:
      trainstack convert jobs/ -s lab --dry-run
      trainstack convert job.yaml volumes.yaml -s lab
      kubectl get jobs,pvc -n vision -o yaml | trainstack convert - -s lab
      trainstack convert jobs/ -s lab --sweep
      trainstack convert job.yaml -s lab --native
    """
    session = Session.open(stack)
    objects = read_objects(_read_sources(files))
    if not objects:
        fail("the files contain no objects", ExitCode.USAGE)
    file = stack_file(stack)
    with edit_project(session.root) as edit:
        old_text = edit.read(file)
        conversion, changed_files = _convert(
            edit, session.root, stack, objects, old_text, namespace, sweep=sweep, native=native
        )
        has_changes = conversion.files_or_entries
        checked = check_conversion(session.root, changed_files, stack, conversion) if has_changes else ()
        is_complete = all(item.comparison.is_complete for item in checked)
        diff = staging.unified_diff_of(session.root, changed_files)
        is_written = is_complete and not dry_run and bool(changed_files)
        if is_written:
            edit.write(changed_files)
    checked = checked or tuple(CheckedObject(item) for item in conversion.objects)
    if as_json:
        show_json(_as_json(checked, conversion, sorted(changed_files) if is_written else [], diff))
    else:
        creation = [] if old_text else creation_steps(stack)
        _show(stack, checked, conversion, diff if dry_run else "", creation, dry_run=dry_run)
    if not is_complete or any(item.converted.outcome == "left" for item in checked):
        raise typer.Exit(ExitCode.FINDINGS)


def _read_sources(names: Iterable[str]) -> Iterator[SourceText]:
    for name in names:
        if name == _STDIN:
            yield SourceText(name="stdin", text=_decode("stdin", sys.stdin.buffer.read(_MAX_BYTES)))
            continue
        if "\0" in name:
            fail(f"{name!r} is not the name of a file", ExitCode.USAGE)
        path = Path(name)
        try:
            paths = sorted(child for child in path.iterdir() if child.suffix in _SUFFIXES) if path.is_dir() else [path]
        except OSError as error:
            fail(describe_os_error(error, name), ExitCode.USAGE)
        if not paths:
            fail(f"{name}: the folder has no files with the suffixes {', '.join(_SUFFIXES)}", ExitCode.USAGE)
        for child in paths:
            try:
                yield SourceText(name=str(child), text=_decode(str(child), read_bytes(child, _MAX_BYTES)))
            except OSError as error:
                fail(describe_os_error(error, str(child)), ExitCode.USAGE)


def _decode(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return fail(f"{name}: is not UTF-8 text: {error}", ExitCode.USAGE)


def _convert(
    edit: ProjectEdit,
    root: Path,
    stack: str,
    objects: Sequence[InputObject],
    old_text: str | None,
    namespace: str | None,
    *,
    sweep: bool,
    native: bool,
) -> tuple[Conversion, dict[str, str]]:
    """Return the conversion, and the new texts of all files that change."""
    file = stack_file(stack)
    text = old_text or default_text(objects, namespace)
    loaded = staging.load_changed_project(root, {file: text}, stack)
    target = environment_target(root, loaded, namespace, objects)
    conversion = convert_objects(objects, target, with_sweeps=sweep, native=native)
    for name in conversion.files:
        if edit.read(name) is not None:
            fail(f"{name} exists, and is not overwritten; nothing was written. Remove it, or rename the object")
    if not conversion.files_or_entries:
        return conversion, {}
    try:
        new_text = add_section_entries(text if old_text else ENVIRONMENT_HEAD + text, conversion.entries)
    except TrainstackError as error:
        fail(f"{file}: {error}")
    return conversion, {**conversion.files, file: new_text}


def _as_json(checked: Sequence[CheckedObject], conversion: Conversion, written: list[str], diff: str) -> dict[str, Any]:
    return {
        "objects": [
            {
                "object": item.converted.source.identity,
                "source": str(item.converted.source.where),
                "outcome": item.converted.outcome,
                "place": item.converted.place,
                "reason": item.converted.reason,
                "dropped": list(item.converted.source.dropped),
                "lost": list(map(str, item.comparison.lost)),
                "added": [{"path": field.path, "reason": field.reason} for field in item.comparison.added],
            }
            for item in checked
        ],
        "notes": conversion.notes,
        "written": written,
        "diff": diff,
    }


def _show(
    stack: str,
    checked: Sequence[CheckedObject],
    conversion: Conversion,
    diff: str,
    stack_creation: list[str],
    *,
    dry_run: bool,
) -> None:
    out.print(diff, end="")
    show(make_table(("object", "becomes"), _object_rows([item.converted for item in checked]), fold=("becomes",)))
    if rows := list(_addition_rows(checked)):
        out.print()
        show(make_table(("added", "objects", "why"), rows, right=("objects",), fold=("added", "why")))
    _show_dropped(checked)
    for note in conversion.notes:
        err.print(note)
    lost = [
        f"{item.converted.source.where}: {item.converted.source.identity}: {text}"
        for item in checked
        for text in (
            *map(str, item.comparison.lost),
            *(f"{field.path} would be added" for field in item.comparison.added if not field.reason),
        )
    ]
    if lost:
        err.print("\n".join(["nothing was written, since the result would differ from the files:", *lost]), style="red")
        return
    if not conversion.files_or_entries:
        out.print("no object was converted; no file was changed")
        return
    steps = [
        "git diff, and git add the new files",
        f"trainstack check -s {stack}",
        *stack_creation,
        f"trainstack up -s {stack}",
    ]
    show_steps("Written; every field of the converted objects is rendered. Next", steps, dry_run=dry_run)


def _object_rows(objects: Sequence[ConvertedObject]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table of objects; those of one sweep or list have one row."""
    names_by_row: dict[tuple[str, str], list[str]] = {}
    for item in objects:
        becomes = {
            "converted": item.place,
            "referenced": f"not copied: {item.reason}",
            "left": f"left out: {item.reason}",
        }[item.outcome]
        names_by_row.setdefault((item.source.kind, becomes), []).append(item.source.identity.partition(" ")[2])
    for (kind, becomes), names in names_by_row.items():
        listed = ", ".join(names[:_MAX_LISTED_OBJECTS])
        rest = f" and {len(names) - _MAX_LISTED_OBJECTS} more" if len(names) > _MAX_LISTED_OBJECTS else ""
        yield f"{kind} {listed}{rest}", becomes


def _addition_rows(checked: Sequence[CheckedObject]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table of additions, one for each reason."""
    paths, objects = defaultdict[str, set[str]](set), Counter[str]()
    for item in checked:
        reasons = {field.reason for field in item.comparison.added if field.reason}
        objects.update(reasons)
        for field in item.comparison.added:
            paths[field.reason].add(field.summary)
    for reason in sorted(objects):
        yield ", ".join(sorted(paths[reason])), str(objects[reason]), reason


def _show_dropped(checked: Sequence[CheckedObject]) -> None:
    dropped = Counter(path for item in checked for path in item.converted.source.dropped)
    if dropped:
        listed = ", ".join(dropped)
        err.print(f"Dropped, since the cluster sets them: {listed}")
