"""`python -m trainstack.dev.toolchain`: make the tools, list the versions, check the machine."""

import argparse
import sys

from rich.console import Console

from trainstack.dev.toolchain import debian, machine, tools, versions
from trainstack.dev.toolchain.errors import ToolchainError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code is 1 if it fails."""
    parser = argparse.ArgumentParser(prog="python -m trainstack.dev.toolchain", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    ensure = commands.add_parser("ensure", help="build or find the tools; a no-op once that is done")
    ensure.add_argument("group", nargs="*", help="only these groups (by default all that this machine needs)")
    ensure.add_argument("--client", action="store_true", help="only what deploying to another cluster needs")
    versions = commands.add_parser("versions", help="every pinned version")
    versions.add_argument("--json", action="store_true", help="as JSON")
    commands.add_parser("debian", help="install the Debian packages that the local cluster needs")
    commands.add_parser("machine", help="what this machine lacks for the local cluster")
    chosen = parser.parse_args(arguments)
    try:
        return _run(chosen)
    except BrokenPipeError:
        # The reader of a pipe (`make versions | head`) has seen enough.
        return 0
    except ToolchainError as error:
        Console(stderr=True, markup=False, emoji=False).print(
            f"error: {error}", style="red", markup=False, highlight=False
        )
        return 1


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "ensure":
        tools.ensure(chosen.group or tools.needed_groups(local_cluster=not chosen.client))
    elif chosen.command == "versions":
        versions.show(as_json=chosen.json)
    elif chosen.command == "debian":
        debian.ensure(Console(stderr=True, markup=False, emoji=False))
    else:
        findings = machine.missing()
        for finding in findings:
            sys.stdout.write(f"{finding}\n")
        return 1 if findings else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
