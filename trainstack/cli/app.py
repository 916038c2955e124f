"""The command `trainstack`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from trainstack.cli.output.console import fail, out
from trainstack.cli.output.standard_streams import run_and_exit
from trainstack.errors import ExitCode, TrainstackError, expected_message
from trainstack.files.temporary import remove_leftovers
from trainstack.garbage import suspend_collection

COMMANDS: Mapping[str, tuple[str, str]] = {
    "init": ("init", "Create a project in a repository of its own: at most eight files, none of which may exist."),
    "up": ("up", "Deploy an environment, follow its runs and fetch their results."),
    "preview": ("preview", "Show what `trainstack up` would change, without changing anything."),
    "destroy": (
        "destroy",
        "Remove an environment: runs, queues, operators, definitions, namespaces, in this order; volumes are retained.",
    ),
    "env": ("env", "Print the variables that `pulumi` and `kubectl` need for an environment, as shell commands."),
    "doctor": (
        "doctor",
        "Find what an interrupted `up` or `destroy` left behind, with the commands that repair it; changes nothing.",
    ),
    "check": (
        "check",
        "Check an environment, and whether each of its runs can be admitted; exit with 4 if there is an error.",
    ),
    "explain": (
        "explain",
        "Explain a rule of `trainstack check`: meaning, example and remedy. Without RULE, list all rules.",
    ),
    "forecast": ("forecast", "Forecast when each run waits, starts and ends, and its use of quota; changes nothing."),
    "render": ("render", "Print the objects that an environment declares, in the order of their creation."),
    "rights": ("rights", "Write the least roles that deployers and users of an environment need, to rights/ENV.yaml."),
    "image": ("image", "Build, push and list the images of an environment's runs."),
    "pin": ("pin", "Pin images to digests, and branches and tags of code to commits, in pins/ENV.yaml."),
    "status": (
        "status",
        "Show the state, queue position, reason for waiting and progress of all runs; with RUN, its details.",
    ),
    "wait": ("wait", "Wait until a run, or all runs, have ended; exit with 1 if one failed."),
    "logs": ("logs", "Print the logs of a run's replicas, merged by time, with the replica of each line."),
    "events": ("events", "Show the events of a run's launch, Workload, pods and volume claims, oldest first."),
    "upload": ("files", "Copy a folder or file to a volume, sending only differences, verified by sha256."),
    "ls": ("files", "List the files in a folder of a volume, recursively, with their sha256."),
    "fetch": ("files", "Copy a run's record, or a folder or file on a volume, to this machine, verified by sha256."),
    "compare": ("compare", "Compare runs: steps of each replica, time per epoch, speed-up, final accuracy and loss."),
    "add-team": ("add_team", "Add a team to the platform's environment, and write an environment for the team."),
    "adopt": (
        "adopt",
        "Write the existing volumes and queues of a namespace into an environment, which then manages them.",
    ),
    "convert": (
        "convert",
        "Convert Kubernetes YAML into workloads and entries of an environment, without losing a field.",
    ),
    "review": ("review", "Review pull requests: the steps of the workflows in .github/."),
    "sweep": ("sweep", "Search for the best parameter set: expand, follow and compare sweeps."),
    "cluster": ("cluster", "Manage the local cluster: Kubernetes on this machine, natively or in kind."),
    "dev": ("dev", "For contributors to Trainstack: the toolchain and generated files."),
}
"""The module and the summary of each command, in the order of the help. The summary is the first line of the command's
own help: it is here too, because the help of all commands would otherwise import all of their modules."""

PANELS: Mapping[str, tuple[str, ...]] = {
    "Deploy": ("init", "up", "preview", "destroy", "env", "doctor"),
    "Check before deploying": ("check", "explain", "forecast", "render", "rights", "pin"),
    "Runs and their files": ("status", "wait", "logs", "events", "compare", "upload", "ls", "fetch"),
    "Sweeps and images": ("sweep", "image"),
    "Teams and pull requests": ("add-team", "adopt", "convert", "review"),
    "The local cluster, and for contributors": ("cluster", "dev"),
}
"""The headings of the help, each with its commands in order."""


class _LazyCommands(Mapping[str, Any]):
    """The commands; a command's module is imported when the command is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _load(name: str) -> Any:
    with suspend_collection():
        module = import_module(f"trainstack.cli.commands.{COMMANDS[name][0]}")
    group = typer.Typer(add_completion=False)
    if hasattr(module, "app"):
        group.add_typer(module.app, name=name)
    else:
        group.command(name)(getattr(module, name.replace("-", "_")))
    command = typer.main.get_group(group).commands[name]
    for documented_command in (command, *getattr(command, "commands", {}).values()):
        _hide_types_of_flags(documented_command)
        paragraphs = cleandoc(documented_command.help or "").split("\n\n")
        # Rich keeps line breaks, which only the examples need.
        documented_command.help = "\n\n".join(
            text if text.startswith("Example") else text.replace("\n", " ") for text in paragraphs
        )
    return command


def _hide_types_of_flags(command: Any) -> None:
    """Remove `<bool>` from the help of options that take no value."""
    for option in command.get_params(typer.Context(command)):
        if getattr(option, "is_flag", False):
            option.metavar = ""


class _CommandGroup(TyperGroup):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{**arguments, "commands": _LazyCommands()})

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help from the commands' summaries."""
        _hide_types_of_flags(self)
        with self._summaries():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the name of a command or option."""
        with self._summaries():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _summaries(self) -> Iterator[None]:
        """Replace the commands by their summaries, which need no module of a command."""
        lazy_commands = self.commands
        self.commands = {
            name: TyperCommand(name, help=COMMANDS[name][1], rich_help_panel=panel)
            for panel, names in PANELS.items()
            for name in names
        }
        try:
            yield
        finally:
            self.commands = lazy_commands

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report an expected error as one message, without a traceback."""
        remove_leftovers()
        try:
            return super().invoke(ctx)
        except Exception as error:
            message = expected_message(error)
            if message is None:
                raise
            return fail(message, error.exit_code if isinstance(error, TrainstackError) else ExitCode.FAILED)


app = typer.Typer(
    cls=_CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 refused by a guard, 4 findings, 5 unreachable.",
    help="Training infrastructure as code: storage, queues, operators and training runs on Kubernetes.",
)


def _show_version(is_requested: bool) -> None:  # noqa: FBT001 (called with the option's value)
    if is_requested:
        from importlib.metadata import version  # noqa: PLC0415 (slow to import)

        out.print(f"trainstack {version('trainstack')}")
        raise typer.Exit


@app.callback()
def trainstack(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Training infrastructure as code: storage, queues, operators and training runs on Kubernetes."""


def main() -> None:
    run_and_exit(app)
