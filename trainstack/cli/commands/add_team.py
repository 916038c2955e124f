from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.output.console import err, fail, out, show_json, show_steps
from trainstack.cli.session import DryRunOption, JsonOption, StackOption, checkout
from trainstack.cli.stack_selection import creation_steps
from trainstack.errors import ExitCode
from trainstack.files.project import edit_project
from trainstack.onboarding import project_files as staging
from trainstack.onboarding.new_team import NewTeamPlan, plan_new_team
from trainstack.onboarding.team_request import TeamRequest
from trainstack.onboarding.yaml_additions import add_section_entries
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load, read_shared_names
from trainstack.settings.loading.project import project_name
from trainstack.settings.model import Settings


def add_team(  # noqa: PLR0913 (the options of the command)
    name: Annotated[str, typer.Argument(metavar="NAME", help="The team's name, also of its queue, role and stack.")],
    *,
    stack: StackOption,
    namespace: Annotated[str | None, typer.Option(help="The team's namespace (default: NAME).")] = None,
    cohort: Annotated[str | None, typer.Option(help="The cohort of the team's cluster queue.")] = None,
    quota: Annotated[
        list[str] | None, typer.Option(metavar="RESOURCE=QUANTITY", help="Nominal quota; repeatable.")
    ] = None,
    flavor: Annotated[str | None, typer.Option(help="The flavor of the quota.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="A group that gets the team's rights; repeatable.")] = None,
    user: Annotated[list[str] | None, typer.Option(help="A user who gets the team's rights; repeatable.")] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add a team to the platform's environment, and write an environment for the team.

    Adds a namespace, a cluster queue with its quota, a local queue and the team's rights to the platform's file; keeps
    comments and order. Writes Pulumi.NAME.yaml, a tenant's stack with a volume and an example run. Checks both files
    before it writes either; deploys nothing. Repeating the command changes nothing.

    Examples:
      trainstack add-team vision -s lab --dry-run
      trainstack add-team vision -s lab --quota cpu=16 --quota memory=64Gi --quota nvidia.com/gpu=2 --flavor a100
      trainstack add-team vision -s lab --cohort research --group vision-ml --user ann@example.org
    """
    root = checkout()
    request = TeamRequest(
        name=name,
        namespace=namespace,
        cohort=cohort,
        flavor=flavor,
        quota=_parse_quota(quota or []),
        groups=tuple(group or ()),
        users=tuple(user or ()),
    )
    team_file, platform_file = f"Pulumi.{name}.yaml", f"Pulumi.{stack}.yaml"
    with edit_project(root) as edit:
        text = edit.read(platform_file)
        settings = load(root, stack)
        team_plan = plan_new_team(settings, request, project_name(root), read_shared_names(root))
        team_exists = edit.read(team_file) is not None
        changed_files = {platform_file: add_section_entries(text or "", team_plan.entries)} if team_plan.entries else {}
        # The team may have edited its own file, so an existing one is never changed.
        if team_exists:
            _ensure_tenant(root, name, stack)
        else:
            changed_files[team_file] = team_plan.team_file
        kept_names = [*team_plan.existing_entries, *([team_file] if team_exists else [])]
        # Both environments are checked with both changes before either file is written.
        faults = [
            fault
            for environment in (stack, name)
            if changed_files
            for fault in staging.find_faults(root, changed_files, environment)
        ]
        if faults:
            fail("\n".join(["nothing was written, since the result would have errors:", *dict.fromkeys(faults)]))
        diff = staging.unified_diff_of(root, changed_files)
        if not dry_run:
            edit.write(changed_files)
    if as_json:
        show_json(
            {
                "team": name,
                "chosen": dict(team_plan.choices),
                "kept": kept_names,
                "written": [] if dry_run else sorted(changed_files),
                "diff": diff,
            }
        )
    else:
        _show(name, settings, team_plan, kept_names, diff, dry_run=dry_run)


def _parse_quota(options: list[str]) -> dict[str, str]:
    quota: dict[str, str] = {}
    for option in options:
        resource, equals, quantity = option.partition("=")
        if not (resource and equals and quantity):
            fail(
                f"--quota {option}: must be RESOURCE=QUANTITY, for example --quota cpu=8 --quota memory=32Gi",
                ExitCode.USAGE,
            )
        if resource in quota:
            fail(f"--quota {resource}: set twice; keep one of them", ExitCode.USAGE)
        quota[resource] = quantity
    return quota


def _ensure_tenant(root: Path, name: str, stack: str) -> None:
    """Exit if the team's file exists, which is kept, and is not a tenant's environment."""
    try:
        environment = load(root, name).environment
    except SettingsError as error:
        fail(f"Pulumi.{name}.yaml exists and has errors: {error}")
    if name == stack or environment.profile != "tenant":
        fail(f"Pulumi.{name}.yaml exists and is not a team's environment; choose another name for the team")


def _show(
    name: str, settings: Settings, team_plan: NewTeamPlan, kept_names: list[str], diff: str, *, dry_run: bool
) -> None:
    stack = settings.stack
    for kept_name in kept_names:
        err.print(f"exists and is kept: {kept_name}")
    if not diff:
        out.print(f"team {name} of {stack} is complete; nothing was changed")
        return
    out.print(diff, end="")
    for setting, value in team_plan.choices.items():
        err.print(f"{setting}: {value}")
    account = next((team.service_account for team in settings.tenants.teams if team.name == name), None)
    account = account or (name if "service account" in team_plan.choices.get("rights", "") else None)
    steps = [
        f"trainstack rights -s {stack} && trainstack rights -s {name}",
        f"git diff && git add Pulumi.{stack}.yaml Pulumi.{name}.yaml rights",
        f"trainstack check -s {stack} && trainstack check -s {name}",
        f"after the review, as an administrator: kubectl apply -f rights/{stack}.yaml",
        f"pulumi preview -s {stack} && pulumi up -s {stack}",
        *([f"kubectl create token -n {team_plan.choices['namespace']} {account}"] if account else []),
        *([] if settings.environment.state == "embedded" else creation_steps(name)),
        f"with the team's kubeconfig: trainstack up -s {name}",
    ]
    show_steps("Written; nothing was deployed. Next", steps, dry_run=dry_run)
