"""`trainstack add-team`: what a new team needs, written and ready to be reviewed."""

from typing import Annotated

import typer

from trainstack.cli.console import err, fail, out, show_json
from trainstack.cli.session import JsonOption, StackOption, checkout
from trainstack.onboarding import project_files as staging
from trainstack.onboarding.editing import with_entries
from trainstack.onboarding.new_team import Plan, plan
from trainstack.onboarding.team_request import Request, TeamError
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.files import read_text
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings


def add_team(  # noqa: PLR0913 (each is an option of the command)
    name: Annotated[str, typer.Argument(metavar="NAME", help="The team: its queue, its role and its stack bear it.")],
    *,
    stack: StackOption = "dev",
    namespace: Annotated[str | None, typer.Option(help="Its namespace; by default NAME.")] = None,
    cohort: Annotated[str | None, typer.Option(help="The cohort it lends to and borrows from.")] = None,
    quota: Annotated[
        list[str] | None, typer.Option(metavar="RESOURCE=QUANTITY", help="Nominal quota; may be given several times.")
    ] = None,
    flavor: Annotated[str | None, typer.Option(help="The flavor that the quota is counted on.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="A group that gets the team's rights.")] = None,
    user: Annotated[list[str] | None, typer.Option(help="A user who gets the team's rights.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change, write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write what a new team needs into the platform's environment, and an environment of the team's own.

    The platform's file gets a namespace, a cluster queue with its quota, a local queue and the team's rights; comments
    and order stay. Pulumi.NAME.yaml is a tenant's stack with a volume and an example run. Both are checked before
    either is written; nothing is deployed. Running it again changes nothing.

    Examples:

      trainstack add-team vision -s lab --dry-run

      trainstack add-team vision -s lab --quota cpu=16 --quota memory=64Gi --quota nvidia.com/gpu=2 --flavor a100

      trainstack add-team vision -s lab --cohort research --group vision-ml --user ann@example.org
    """
    root = checkout()
    own, platform = f"Pulumi.{name}.yaml", f"Pulumi.{stack}.yaml"
    request = Request(
        name=name,
        namespace=namespace,
        cohort=cohort,
        flavor=flavor,
        quota=_quota(quota or []),
        groups=tuple(group or ()),
        users=tuple(user or ()),
    )
    try:
        settings = load(root, stack)
        planned = plan(settings, request)
        text = read_text(root / platform)
        files = {platform: with_entries(text, planned.entries)}
    except (SettingsError, TeamError, ValueError) as error:
        fail(str(error))
    kept = list(planned.kept)
    if (root / own).is_file():
        _must_be_a_tenant(name, stack)
        kept.append(own)
    else:
        files[own] = planned.team
    changed = {file: text for file, text in files.items() if file != platform or planned.entries}
    faults = [each for each in (stack, name) if changed for each in staging.faults(root, changed, each)]
    if faults:
        fail("\n".join(["nothing is written, since the result would have faults:", *dict.fromkeys(faults)]))
    shown = staging.diff(root, changed)
    if changed and not dry_run:
        staging.write(root, changed)
    if as_json:
        show_json(
            {
                "team": name,
                "chosen": dict(planned.chosen),
                "kept": kept,
                "written": [] if dry_run else sorted(changed),
                "diff": shown,
            }
        )
    else:
        _tell(name, settings, planned, kept, shown, dry_run=dry_run)


def _quota(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        resource, equals, quantity = word.partition("=")
        if not (resource and equals and quantity):
            fail(f"--quota {word} is not RESOURCE=QUANTITY; write for example --quota cpu=8 --quota memory=32Gi")
        if resource in found:
            fail(f"--quota {resource} is given twice; keep one of them")
        found[resource] = quantity
    return found


def _must_be_a_tenant(name: str, stack: str) -> None:
    """The file that is there is left as it is, so it must be a team's."""
    try:
        environment = load(checkout(), name).environment
    except SettingsError as error:
        fail(f"Pulumi.{name}.yaml is there already, and has faults: {error}")
    if name == stack or environment.profile != "tenant":
        fail(f"Pulumi.{name}.yaml is there already, and is no team's environment; choose another name for the team")


def _tell(name: str, settings: Settings, planned: Plan, kept: list[str], shown: str, *, dry_run: bool) -> None:
    stack = settings.stack
    for each in kept:
        err.print(f"is there already, and stays as it is: {each}", markup=False)
    if not shown:
        out.print(f"team {name} of {stack} has all that it needs; nothing is changed", markup=False)
        return
    out.print(shown, markup=False, end="")
    for what, value in planned.chosen.items():
        err.print(f"{what}: {value}", markup=False)
    account = next((one.service_account for one in settings.tenants.teams if one.name == name), None)
    account = account or (name if "service account" in planned.chosen.get("rights", "") else None)
    steps = [
        f"trainstack rights -s {stack} && trainstack rights -s {name}",
        f"git diff && git add Pulumi.{stack}.yaml Pulumi.{name}.yaml rights",
        f"trainstack check -s {stack} && trainstack check -s {name}",
        f"an administrator, once it is reviewed: kubectl apply -f rights/{stack}.yaml",
        f"pulumi preview -s {stack} && pulumi up -s {stack}",
        *([f"kubectl create token -n {planned.chosen['namespace']} {account}"] if account else []),
        f"with the team's kubeconfig: trainstack up -s {name}",
    ]
    head = "Nothing is written (--dry-run). Without it, then" if dry_run else "Written; nothing is deployed. Next"
    err.print(f"{head}:\n" + "\n".join(f"  {step}" for step in steps), markup=False)
