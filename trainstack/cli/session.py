"""The checkout, environment and cluster of a command."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from trainstack.cli.output.console import fail
from trainstack.cli.stack_selection import selected_stack
from trainstack.errors import ExitCode
from trainstack.lifecycle.teardown.permission_files import remove_stale_permissions
from trainstack.live.kubeconfig import KUBECONFIG_VARIABLE, LOCAL_CLUSTER_FILE, absolute_paths, default_path
from trainstack.runs.names import prefix_of_run, run_prefix
from trainstack.settings.loading.load import EnvironmentPlacement, LoadedEnvironment, load_with_places, read_placement
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.stack_name import list_stacks, stack_name_fault

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the change without writing it.")]


def file_option(text: str) -> Any:
    return typer.Option(metavar="FILE", help=text, dir_okay=False)


def find_project() -> Path | None:
    """Return the nearest folder with a Pulumi.yaml, from the current one upwards."""
    folders = (Path.cwd(), *Path.cwd().parents)
    return next((folder for folder in folders if (folder / "Pulumi.yaml").is_file()), None)


def checkout() -> Path:
    """Return the nearest folder with a Pulumi.yaml; if it does not exist, exit with the remedy."""
    message = "no Pulumi.yaml in this folder or above; change to your project, or create one with `trainstack init`"
    return find_project() or fail(message, ExitCode.USAGE)


def default_stack() -> str:
    """Return the stack that is selected in Pulumi; exits without one."""
    if "_TRAINSTACK_COMPLETE" in os.environ:
        # The shell completes an option: any valid name will do, and an error would be printed into the command line.
        return "any"
    root = checkout()
    return selected_stack(root) or fail(
        f"no environment is selected; add `-s ENV`, set {STACK_VARIABLE}, or run `pulumi stack select ENV`. The "
        f"environments of {root}: {', '.join(list_stacks(root)) or 'none'}",
        ExitCode.USAGE,
    )


def _complete_environment(incomplete: str) -> list[str]:
    """Complete the name of an environment."""
    root = find_project()
    return [stack for stack in (list_stacks(root) if root else ()) if stack.startswith(incomplete)]


def valid_stack(stack: str) -> str:
    """Return the name of a stack; if it is not valid, exit with the reason."""
    if name_fault := stack_name_fault(stack):
        fail(str(name_fault), ExitCode.USAGE)
    return stack


STACK_VARIABLE = "TRAINSTACK_STACK"


def _stack_option(**options: Any) -> Any:
    return typer.Option(
        "--stack",
        "-s",
        metavar="ENV",
        envvar=STACK_VARIABLE,
        show_default="the stack selected in Pulumi",
        autocompletion=_complete_environment,
        help="The environment: `dev` for Pulumi.dev.yaml.",
        **options,
    )


StackOption = Annotated[str, _stack_option(default_factory=default_stack, callback=valid_stack)]
OptionalStackOption = Annotated[str | None, _stack_option()]
"""For commands that need no environment with some options; they call `default_stack` or `valid_stack`."""


@dataclass(frozen=True)
class Session:
    """One environment of a checkout."""

    root: Path
    stack: str

    @staticmethod
    def open(stack: str) -> "Session":
        """Open an environment of the current checkout.

        Sets KUBECONFIG to the local cluster's if that is the environment's default, and makes a relative path absolute,
        since the engine runs in the checkout's root.
        """
        session = Session(checkout(), stack)
        remove_stale_permissions(session.root)
        if os.environ.get(KUBECONFIG_VARIABLE) or session.placement.local:
            os.environ[KUBECONFIG_VARIABLE] = str(session.kubeconfig)
        return session

    @property
    def private_folder(self) -> Path:
        """The checkout's private folder, ignored by git."""
        return self.root / ".trainstack"

    @property
    def cluster_folder(self) -> Path:
        return self.private_folder / "cluster"

    @property
    def is_local(self) -> bool:
        """Whether the commands use the local cluster."""
        return self.kubeconfig.resolve() == (self.root / LOCAL_CLUSTER_FILE).resolve()

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig: one absolute path, or several as KUBECONFIG lists them."""
        if path := absolute_paths(os.environ.get(KUBECONFIG_VARIABLE) or ""):
            return Path(path)
        return self.root / LOCAL_CLUSTER_FILE if self.placement.local else default_path()

    @property
    def results(self) -> Path:
        """The folder of fetched records: `results/<run-id>/`."""
        return self.root / "results"

    @cached_property
    def placement(self) -> EnvironmentPlacement:
        """Where the state and the cluster are, also if the environment's file is missing or not valid."""
        return read_placement(self.root, self.stack)

    @cached_property
    def loaded(self) -> LoadedEnvironment:
        """The settings with the places of their values. Raises SettingsError with all errors."""
        return load_with_places(self.root, self.stack)

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    def workload(self, name: str) -> Workload | None:
        return next((run for _, run in self.settings.runs_and_trials() if run.name == name), None)

    def workload_of_run(self, run_id: str) -> Workload | None:
        """Return the workload of a run, or the program of a trial, that the environment declares."""
        prefix = prefix_of_run(run_id)
        return next((run for _, run in self.settings.runs_and_trials() if run_prefix(run) == prefix), None)
