"""Where a command works: the checkout, the environment, the cluster."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.console import fail
from trainstack.live.kubeconfig import absolute
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import Loaded, load_with_places
from trainstack.settings.model import Settings
from trainstack.settings.values.stack_name import fault

StackOption = Annotated[
    str, typer.Option("--stack", "-s", metavar="ENV", help="The environment: `dev` for Pulumi.dev.yaml.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]


def checkout() -> Path:
    """The project's root: where the nearest Pulumi.yaml is, upwards from here."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    return fail("no Pulumi.yaml here or above; go to your checkout of the project")


@dataclass(frozen=True)
class Session:
    """One command's surroundings."""

    root: Path
    stack: str

    @staticmethod
    def open(stack: str) -> "Session":
        """The session for an environment of the checkout that the command is called in.

        Points KUBECONFIG at the local cluster where the person has set none, and makes a relative one absolute: the
        engine works in the checkout's root. Ends the command for a name that no environment can have.
        """
        if misnamed := fault(stack):
            fail(str(misnamed))
        session = Session(checkout(), stack)
        os.environ["KUBECONFIG"] = str(session.kubeconfig)
        return session

    @property
    def state(self) -> Path:
        """What is this checkout's own: never committed."""
        return self.root / ".trainstack"

    @property
    def cluster_state(self) -> Path:
        """The folder of the local cluster."""
        return self.state / "cluster"

    @property
    def local(self) -> bool:
        """Whether the cluster is the local one: so unless KUBECONFIG names another."""
        return self.kubeconfig.resolve() == (self.cluster_state / "kubeconfig").resolve()

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that every command uses: a file, or several as KUBECONFIG lists them, with absolute paths."""
        return Path(absolute(os.environ.get("KUBECONFIG") or str(self.cluster_state / "kubeconfig")))

    @property
    def results(self) -> Path:
        """Where fetched runs lie: `results/<run-id>/`."""
        return self.root / "results"

    @cached_property
    def loaded(self) -> Loaded:
        """The environment and where its values are set; faults end the command, all of them listed."""
        try:
            return load_with_places(self.root, self.stack)
        except SettingsError as error:
            return fail(str(error))

    @property
    def settings(self) -> Settings:
        """The environment."""
        return self.loaded.settings
