from dataclasses import asdict
from pathlib import Path

import yaml

from trainstack.cli.output.console import out, show_json
from trainstack.cli.releases import settings_with_downloads
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.files.project import edit_project
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks.rights import Rights, rights_of

FOLDER = Path("rights")
"""The folder of the files, relative to the project."""
_HEAD = """\
# What the people of `{stack}` may do, and no more. Made by `trainstack rights -s {stack}`; see docs/rights.md.
"""


def rights_in(session: Session) -> Rights:
    """Return the rights of an environment.

    Raises ReleaseError for a missing release manifest, WorkloadError or OperatorError for an invalid file.
    """
    return rights_of(StackObjects.from_files(settings_with_downloads(session.settings), session.root))


def rights_text(session: Session) -> str:
    return _file_text(session.stack, rights_in(session))


def _file_text(stack: str, environment_rights: Rights) -> str:
    """Write the escalations as comments, so that a review shows a new one, then the objects."""
    escalation_lines = [
        f"#   {line}" for role in environment_rights.escalations for line in _escalation_lines(role, environment_rights)
    ]
    head = _HEAD.format(stack=stack) + "\n".join(
        ["# Beyond that they could:", *escalation_lines, ""] if escalation_lines else []
    )
    return head + yaml.safe_dump_all(environment_rights.objects, sort_keys=False, default_flow_style=None, width=120)


def _escalation_lines(role: str, environment_rights: Rights) -> list[str]:
    escalations = environment_rights.escalations[role]
    return [role, *(f"  {escalation.text}" for escalation in escalations)] if escalations else []


def rights(stack: StackOption, *, as_json: JsonOption = False) -> None:
    """Write the least roles that deployers and users of an environment need, to rights/ENV.yaml.

    Prints the escalations that each role allows, such as reading every Secret of a namespace through a pod that mounts
    it. Applies nothing: commit the file, then a cluster administrator applies it and binds the roles to people.

    Examples:
      trainstack rights -s dev
      trainstack rights -s dev --json
    """
    session = Session.open(stack)
    name = str(FOLDER / f"{stack}.yaml")
    with edit_project(session.root) as edit:
        environment_rights = rights_in(session)
        edit.write({name: _file_text(stack, environment_rights)})
    if as_json:
        escalations = {
            role: [asdict(escalation) for escalation in role_escalations]
            for role, role_escalations in environment_rights.escalations.items()
        }
        show_json({"file": name, "escalations": escalations})
        return
    roles = dict.fromkeys(str(role["metadata"]["name"]) for role in environment_rights.roles)
    out.print(f"{name}: {' and '.join(roles)}")
    for role in environment_rights.escalations:
        for line in _escalation_lines(role, environment_rights):
            out.print(line)
