"""`trainstack init`: a project in a repository of its own."""

import shlex
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated, Literal

import typer

from trainstack.cli.output.console import err, fail, out, show_steps
from trainstack.cli.session import DryRunOption
from trainstack.cli.stack_selection import creation_steps
from trainstack.errors import ExitCode, TrainstackError
from trainstack.files.project import edit_project
from trainstack.files.temporary import temporary_folder
from trainstack.live.releases import fetch_unpinned
from trainstack.onboarding import project_files
from trainstack.onboarding.new_project.files import (
    ORIGIN_FILE,
    OWNED_FILES,
    Installation,
    build_new_files,
    build_owned_files,
    renew_owned_files,
)
from trainstack.onboarding.new_project.origin import WHEELS, Origin, read_origin
from trainstack.onboarding.new_project.release import RELEASE_URLS, PinnedRelease, release_url
from trainstack.onboarding.new_project.request import ProjectRequest
from trainstack.platform.operators.release import ReleaseError
from trainstack.preflight.file_checks import examine, load_error_result
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading import schema
from trainstack.settings.loading.load import default_version, load_with_places
from trainstack.settings.loading.project import PROJECT_FILE, has_virtualenv, project_name
from trainstack.settings.values.stack_name import stack_name_fault
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.toolchain import digests
from trainstack.toolchain.python_locks import runtime_requirements

_SCHEMAS = Path(".trainstack/schema")
"""Where the files' comments for editors refer to; git ignores it."""


def init(  # noqa: PLR0913 (the options of the command)
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The repository (default: this folder).")] = Path(),
    *,
    profile: Annotated[
        Literal["owner", "tenant"] | None,
        typer.Option(help="`owner` declares namespaces, queues and operators; `tenant` uses those of a platform."),
    ] = None,
    cluster: Annotated[
        Literal["kind", "eks", "gke", "aks", "other"] | None,
        typer.Option(help="The cluster's service, which decides on storage classes and comments."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The Pulumi project's name (default: FOLDER's).")] = None,
    stack: Annotated[
        str | None,
        typer.Option(
            "--stack", "-s", metavar="ENV", help="The environment (default: dev; a tenant's: the namespace's name)."
        ),
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="The runs' namespace (an owner's default: training).")] = None,
    queue: Annotated[
        str | None, typer.Option(help="The runs' queue (an owner's default: the namespace's name).")
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Renew the generated files of a project, unless they were edited.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create a project in a repository of its own: at most eight files, none of which may exist.

    The files are Pulumi.yaml, __main__.py, two files of requirements, an environment, a workload, a GitHub workflow
    and .gitignore. Deploys nothing. With --upgrade, renews the generated files (all but the environment and the
    workload) after an upgrade of Trainstack: shows the difference, and for an edited file, which is kept, the
    difference to apply.

    Examples:
      trainstack init --profile owner --cluster kind
      trainstack init vision --profile tenant --cluster eks --namespace vision --queue vision
      trainstack init --upgrade
    """
    if stack is not None and (name_fault := stack_name_fault(stack)):
        fail(str(name_fault), ExitCode.USAGE)
    root = folder.resolve()
    if upgrade:
        if [option for option in (profile, cluster, name, stack, namespace, queue) if option is not None]:
            raise typer.BadParameter("--upgrade takes no other option than --dry-run: the files have the values")
        _upgrade(root, dry_run=dry_run)
        return
    if profile is None or cluster is None:
        raise typer.BadParameter("name the profile and the cluster, for example: --profile owner --cluster kind")
    request = ProjectRequest(
        name=name if name is not None else root.name,
        environment=stack,
        profile=profile,
        cluster=cluster,
        namespace=namespace,
        queue=queue,
    )
    installation = _installation()
    uses_virtualenv = (root / ".venv" / "bin" / "python").exists()
    # Before the download: the request may have faults, and the files may exist.
    _ensure_absent(root, build_new_files(request, installation, virtualenv=uses_virtualenv))
    releases = _pin_releases() if profile == "owner" else {}
    files = build_new_files(request, installation, releases, virtualenv=uses_virtualenv)
    findings = _findings(files, request.stack)
    if dry_run:
        out.print(project_files.unified_diff_of(root, files), end="")
    else:
        root.mkdir(parents=True, exist_ok=True)
        with edit_project(root) as edit:
            # Again, since another command may have written them before this block.
            _ensure_absent(root, files)
            edit.write(files | schema.schema_files(_SCHEMAS))
        for path in files:
            err.print(f"written: {path}")
    _warn_of_origin(installation.origin)
    _show_next(root, request, list(files), findings, installation.origin, dry_run=dry_run)


def _pin_releases() -> dict[str, PinnedRelease]:
    """Download the published releases, and pin their sha256, by operator; omit, after a note, those that fail."""
    releases = {}
    for operator in RELEASE_URLS:
        version = default_version(operator)
        url = release_url(operator, version)
        try:
            digest = fetch_unpinned(f"{operator} {version}", url, err.print)
        except ReleaseError as error:
            err.print(
                f"note: the published release of {operator} was not downloaded: {error.message}. `trainstack up` "
                "builds the same release instead"
            )
        else:
            releases[operator] = PinnedRelease(version, url, digest)
    return releases


def _installation() -> Installation:
    origin = read_origin(distribution("trainstack").read_text("direct_url.json"), _hash_of)
    return Installation(origin, runtime_requirements().rstrip())


def _hash_of(file: Path) -> str | None:
    try:
        return digests.sha256(file)
    except OSError:
        return None


def _warn_of_origin(origin: Origin) -> None:
    if origin.problem:
        err.print(
            f"The workflow cannot install Trainstack: {origin.problem}. Install it from a wheel or from git, and run "
            "`trainstack init --upgrade`."
        )


def _wheel_steps(origin: Origin) -> list[str]:
    """Return the commands that put the wheel where the requirements expect it."""
    if origin.wheel is None:
        return []
    return [f"mkdir -p {WHEELS} && cp {shlex.quote(str(origin.wheel))} {WHEELS}/"]


def _ensure_absent(root: Path, files: Iterable[str]) -> None:
    if existing_paths := [path for path in files if (root / path).is_symlink() or (root / path).exists()]:
        remedy = (
            "renew the generated files with --upgrade" if PROJECT_FILE in existing_paths else "move these files away"
        )
        raise TrainstackError(
            f"nothing was written, since these files exist in {root}: {', '.join(existing_paths)}",
            f"{remedy}, or name another folder",
        )


def _findings(files: dict[str, str], stack: str) -> list[str]:
    """Return the errors and warnings of `trainstack check` in the files."""
    with temporary_folder() as root:
        with edit_project(root) as edit:
            edit.write(files)
        try:
            loaded = load_with_places(root, stack)
        except SettingsError as error:
            return [str(finding) for finding in load_error_result(error).findings]
        findings = examine(StackObjects(loaded.settings), root, loaded.places).findings
        # The others are about what only this machine, or another person's platform, can answer.
        return [str(finding) for finding in findings if finding.severity != "unknown"]


def _show_next(
    root: Path, request: ProjectRequest, files: list[str], findings: list[str], origin: Origin, *, dry_run: bool
) -> None:
    stack = request.stack
    for finding in findings:
        err.print(finding)
    steps = [
        *([f"cd {shlex.quote(str(root))}"] if root != Path.cwd() else []),
        *(["git init"] if not (root / ".git").exists() else []),
        f"trainstack check -s {stack}",
        *_wheel_steps(origin),
        f"git add {' '.join([*files, *([WHEELS] if origin.wheel else [])])} && git commit",
        *([] if request.embedded else creation_steps(stack)),
        f"trainstack up -s {stack}",
    ]
    show_steps("Nothing was deployed. Next", steps, dry_run=dry_run)


def _upgrade(root: Path, *, dry_run: bool) -> None:
    if not (root / PROJECT_FILE).is_file():
        fail(
            f"no {PROJECT_FILE} in {root}; change to the project's folder, or create a project with --profile and "
            "--cluster"
        )
    installation = _installation()
    fresh_texts = build_owned_files(project_name(root), installation, virtualenv=has_virtualenv(root))
    with edit_project(root) as edit:
        existing_texts = {path: text for path in OWNED_FILES if (text := edit.read(path)) is not None}
        if installation.origin.problem and _has_requirement(existing_texts.get(ORIGIN_FILE, "")):
            # The project's requirement still works, unlike a file without one.
            del fresh_texts[ORIGIN_FILE]
        renewals = renew_owned_files(existing_texts, fresh_texts)
        renewed_texts = {path: renewal.text for path, renewal in renewals.items() if renewal.outcome == "renewed"}
        edited_texts = {path: renewal.text for path, renewal in renewals.items() if renewal.outcome == "edited"}
        out.print(project_files.unified_diff_of(root, renewed_texts | edited_texts), end="")
        if not dry_run:
            edit.write(renewed_texts | schema.schema_files(_SCHEMAS))
    for path, renewal in renewals.items():
        err.print(f"{path}: {'would be renewed' if dry_run and path in renewed_texts else renewal.outcome}")
    if ORIGIN_FILE not in fresh_texts:
        raise TrainstackError(
            f"{ORIGIN_FILE} is kept, and not for the version that is installed here: {installation.origin.problem}",
            "install Trainstack from a wheel or from git, and run this command again",
        )
    _warn_of_origin(installation.origin)
    if ORIGIN_FILE in renewed_texts and installation.origin.wheel:
        show_steps("Next", _wheel_steps(installation.origin), dry_run=dry_run)
    if edited_texts:
        raise TrainstackError(
            f"these files were edited and are kept: {', '.join(edited_texts)}",
            "apply the difference above by hand, including its first line, which marks it as applied",
        )


def _has_requirement(text: str) -> bool:
    return any(line.strip() and not line.startswith("#") for line in text.splitlines())
