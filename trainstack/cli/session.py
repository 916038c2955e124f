"""The checkout, environment and cluster of a command."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from trainstack.cli.console import fail
from trainstack.live.kubeconfig import LOCAL, VARIABLE, absolute, default_path
from trainstack.settings.loading.load import Loaded, Placement, load_with_places, placement
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.stack_name import fault

StackOption = Annotated[
    str, typer.Option("--stack", "-s", metavar="ENV", help="The environment: `dev` for Pulumi.dev.yaml.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the change without writing it.")]


def file_option(text: str) -> Any:
    return typer.Option(metavar="FILE", help=text, dir_okay=False)


def checkout() -> Path:
    """Return the nearest folder with a Pulumi.yaml, from the current one upwards."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    return fail("no Pulumi.yaml in this folder or above; change to your checkout of the project")


@dataclass(frozen=True)
class Session:
    """One environment of a checkout."""

    root: Path
    stack: str

    @staticmethod
    def open(stack: str) -> "Session":
        """Open an environment of the current checkout.

        Sets KUBECONFIG to the local cluster's if that is the environment's default, and makes a relative path absolute,
        since the engine runs in the checkout's root. Exits if the name is not valid.
        """
        if misnamed := fault(stack):
            fail(str(misnamed))
        session = Session(checkout(), stack)
        if os.environ.get(VARIABLE) or session.placement.local:
            os.environ[VARIABLE] = str(session.kubeconfig)
        return session

    @property
    def state(self) -> Path:
        """The checkout's private folder, ignored by git."""
        return self.root / ".trainstack"

    @property
    def cluster_state(self) -> Path:
        return self.state / "cluster"

    @property
    def local(self) -> bool:
        """Whether the commands use the local cluster."""
        return self.kubeconfig.resolve() == (self.root / LOCAL).resolve()

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig: one absolute path, or several as KUBECONFIG lists them."""
        if given := absolute(os.environ.get(VARIABLE) or ""):
            return Path(given)
        return self.root / LOCAL if self.placement.local else default_path()

    @property
    def results(self) -> Path:
        """The folder of fetched records: `results/<run-id>/`."""
        return self.root / "results"

    @cached_property
    def placement(self) -> Placement:
        """Where the state and the cluster are, also if the environment's file is missing or not valid."""
        return placement(self.root, self.stack)

    @cached_property
    def loaded(self) -> Loaded:
        """The settings with the places of their values. Raises SettingsError with all errors."""
        return load_with_places(self.root, self.stack)

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    def workload(self, name: str) -> Workload | None:
        return next((run for _, run in self.settings.trained() if run.name == name), None)
