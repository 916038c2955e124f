import shlex
import sys
from pathlib import Path

from trainstack.cli.engine import ensure_stack, environment
from trainstack.cli.session import Session, StackOption


def env(stack: StackOption) -> None:
    """Print the variables that `pulumi` and `kubectl` need for an environment, as shell commands.

    Examples:
      eval "$(.venv/bin/trainstack env -s dev)"
    """
    session = Session.open(stack)
    variables = environment(session)
    ensure_stack(session)
    # Includes `trainstack`, which the stack's outputs recommend.
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    for name, value in sorted(variables.items()):
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
