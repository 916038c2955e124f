import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.engine import engine_variables, ensure_environment_file, ensure_stack, project_engine
from trainstack.cli.session import Session, StackOption


def env(
    *,
    stack: StackOption,
    init: Annotated[
        bool, typer.Option("--init/--no-init", help="Create the state of an embedded environment that has none.")
    ] = True,
) -> None:
    """Print the variables that `pulumi` and `kubectl` need for an environment, as shell commands.

    Examples:
      eval "$(.venv/bin/trainstack env -s dev)"
    """
    session = Session.open(stack)
    ensure_environment_file(session)
    engine = project_engine(session)
    variables = engine_variables(session, engine)
    if init and session.placement.embedded:
        ensure_stack(session)
    # Includes `trainstack`, which the stack's outputs recommend.
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    for name in sorted(engine.removed_variables - variables.keys()):
        sys.stdout.write(f"unset {name}\n")
    for name, value in sorted(variables.items()):
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
