"""`python -m trainstack.dev.toolchain`: build the tools, list the pinned versions, check the machine."""

import argparse
import sys

from rich.console import Console

from trainstack.dev.toolchain import debian, machine, tools, versions
from trainstack.dev.toolchain.errors import ToolchainError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m trainstack.dev.toolchain", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    ensure = commands.add_parser("ensure", help="build missing tools and verify existing ones")
    ensure.add_argument("group", nargs="*", help="limit to these groups (default: all that this machine needs)")
    ensure.add_argument("--client", action="store_true", help="limit to what deploying to another cluster needs")
    versions = commands.add_parser("versions", help="list every pinned version")
    versions.add_argument("--json", action="store_true", help="print JSON")
    commands.add_parser("debian", help="install the Debian packages that the local cluster needs")
    commands.add_parser("machine", help="list what this machine lacks for the local cluster")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except BrokenPipeError:
        # The reader of a pipe has exited, as in `make versions | head`.
        return 0
    except ToolchainError as error:
        console = Console(stderr=True, markup=False, emoji=False)
        console.print(f"error: {error}", style="red", soft_wrap=True, highlight=False)
        return 1


def _run(options: argparse.Namespace) -> int:
    if options.command == "ensure":
        tools.ensure(options.group or tools.needed_groups(local_cluster=not options.client))
    elif options.command == "versions":
        versions.show(as_json=options.json)
    elif options.command == "debian":
        debian.ensure(Console(stderr=True, markup=False, emoji=False))
    else:
        findings = machine.missing()
        for finding in findings:
            sys.stdout.write(f"{finding}\n")
        return 1 if findings else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
