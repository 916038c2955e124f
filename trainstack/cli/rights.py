"""`trainstack rights`: the roles that an environment's people need, as a file to review and to apply."""

from dataclasses import asdict
from pathlib import Path

import yaml

from trainstack.cli.console import fail, out, show_json
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.declared.declared import Declared
from trainstack.stacks.rights import Rights, rights_of

FOLDER = Path("rights")
"""Where the files are, relative to the project."""
_HEAD = """\
# What the people of `{stack}` may do, and no more. Made by `trainstack rights -s {stack}`; see docs/rights.md.
"""


def rights_in(session: Session) -> Rights:
    """The rights of an environment.

    Raises ReleaseError where a release manifest is missing, WorkloadError or OperatorError where one is not right.
    """
    return rights_of(Declared.from_files(session.settings, session.root))


def text(session: Session) -> str:
    """The file of an environment. Raises as `rights_in` does."""
    return _file(session.stack, rights_in(session))


def _file(stack: str, made: Rights) -> str:
    """The escalations as comments, so that a review sees a new one; then the objects."""
    found = [f"#   {line}" for role in made.escalations for line in _lines(role, made)]
    head = _HEAD.format(stack=stack) + "\n".join(["# Beyond that they could:", *found, ""] if found else [])
    return head + yaml.safe_dump_all(made.objects, sort_keys=False, default_flow_style=None, width=120)


def _lines(role: str, made: Rights) -> list[str]:
    return [role, *(f"  {each.text}" for each in made.escalations[role])] if made.escalations[role] else []


def rights(stack: StackOption = "dev", *, as_json: JsonOption = False) -> None:
    """Write the roles of who deploys an environment and of who uses it: the rights they need, and no others.

    Prints what each role could be used for beyond that, such as reading every Secret of a namespace through a pod that
    mounts it. Applies nothing. Commit the file; a cluster administrator applies it and binds the roles to people.

    Examples:

      trainstack rights -s dev

      trainstack rights -s dev --json
    """
    session = Session.open(stack)
    file = session.root / FOLDER / f"{stack}.yaml"
    try:
        made = rights_in(session)
    except ValueError as error:
        fail(str(error))
    file.parent.mkdir(exist_ok=True)
    file.write_text(_file(stack, made), encoding="utf-8")
    name = str(file.relative_to(session.root))
    if as_json:
        escalating = {role: [asdict(each) for each in found] for role, found in made.escalations.items()}
        show_json({"file": name, "escalations": escalating})
        return
    roles = dict.fromkeys(str(each["metadata"]["name"]) for each in made.roles)
    out.print(f"{name}: {' and '.join(roles)}", markup=False)
    for role in made.escalations:
        for line in _lines(role, made):
            out.print(line, markup=False)
