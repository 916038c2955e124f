"""`trainstack rights`: the roles that an environment's people need, as a file to review and to apply."""

from pathlib import Path

import yaml

from cli.console import fail, out
from cli.session import Session, StackOption
from stacks.rights import DEPLOYER, RESEARCHER, role_name, roles_of
from workloads.render import CACHE, read_inputs

FOLDER = Path("rights")
"""Where the files are, relative to the project."""
_HEAD = (
    "# What the people of `{stack}` may do, and no more. Made by `trainstack rights -s {stack}`; see docs/rights.md.\n"
)


def text(session: Session) -> str:
    """The file of an environment.

    Raises ReleaseError where a release manifest is missing, WorkloadError or OperatorError where one is not right.
    """
    settings = session.settings
    inputs = read_inputs(settings, session.root, commit="", cache=session.root / CACHE)
    roles = yaml.safe_dump_all(roles_of(settings, inputs), sort_keys=False, default_flow_style=None, width=120)
    return _HEAD.format(stack=settings.stack) + roles


def rights(stack: StackOption = "dev") -> None:
    """Write the roles of who deploys an environment and of who uses it: the rights they need, and no others.

    Nothing is applied. Commit the file; whoever administers the cluster applies it, and binds the roles to people.

    Examples:

      trainstack rights -s dev
    """
    session = Session.open(stack)
    file = session.root / FOLDER / f"{stack}.yaml"
    try:
        written = text(session)
    except ValueError as error:
        fail(str(error))
    file.parent.mkdir(exist_ok=True)
    file.write_text(written, encoding="utf-8")
    out.print(f"{file.relative_to(session.root)}: {role_name(stack, DEPLOYER)} and {role_name(stack, RESEARCHER)}")
