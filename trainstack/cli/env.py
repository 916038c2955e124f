import shlex
import sys

from trainstack.cli.engine import ensure_stack, environment
from trainstack.cli.session import Session, StackOption
from trainstack.dev.toolchain import tools


def env(stack: StackOption) -> None:
    """Print the variables that `pulumi` and `kubectl` need for an environment, as shell commands.

    Examples:
      eval "$(.venv/bin/trainstack env -s dev)"
    """
    session = Session.open(stack)
    variables = environment(session)
    if session.local:
        variables["PATH"] = f"{tools.program('kubectl').parent}:{variables['PATH']}"
    ensure_stack(session)
    # Includes `trainstack`, which the stack's outputs recommend.
    variables["PATH"] = f"{session.root / '.venv' / 'bin'}:{variables['PATH']}"
    for name, value in sorted(variables.items()):
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
