"""The setup of Pulumi's engine: its home, plugin, backend, passphrase and variables.

Only embedded environments use the checkout's backend and the published passphrase. All others use those that Pulumi
selects itself (`toolchain.backend`).
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import parse_qs

from trainstack.settings.values.published_passphrase import PUBLISHED_PASSPHRASE
from trainstack.toolchain import python_locks
from trainstack.toolchain.backend import credentials_folder, embedded_variables
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.places import state_root


@dataclass(frozen=True)
class Engine:
    """An engine that is ready to run, and the variables of its commands."""

    pulumi: Path
    environment: dict[str, str]
    """Variables to set in addition to the caller's. PATH is complete: the toolchain's folders, then the caller's."""
    built_here: bool
    """Whether the engine was built here and uses our language host."""
    removed_variables: frozenset[str] = frozenset()
    """The caller's variables that the engine must not inherit."""


def prepare_engine(
    checkout: Path,
    pulumi: Path,
    *,
    built_here: bool,
    embedded: bool,
    provider: Path | None = None,
    caller: Mapping[str, str] = os.environ,
) -> Engine:
    """Prepare a checkout's state folder for an engine. Safe to repeat.

    Args:
        checkout: the project's folder.
        pulumi: the engine's program.
        built_here: whether the toolchain built it. Only such an engine has its home in the checkout.
        embedded: whether the environment's state is in the checkout.
        provider: the Kubernetes provider's program, for an engine that cannot download it.
        caller: the variables of this process.

    """
    state = state_root(checkout)
    if built_here:
        home = state / "pulumi"
        home.mkdir(parents=True, exist_ok=True)
        _turn_off_log(home)
        if provider is not None:
            install_plugin(home, provider, _provider_version())
    if embedded:
        (state / "backend").mkdir(parents=True, exist_ok=True)
        passphrase = state / "passphrase"
        if not passphrase.exists() or not passphrase.stat().st_size:
            # By rename: a concurrent engine must not read an empty passphrase, and a killed command must not leave one.
            draft = passphrase.with_name(f".{passphrase.name}.{os.getpid()}")
            draft.write_text(PUBLISHED_PASSPHRASE + "\n")
            draft.replace(passphrase)
    removed_variables = _empty_passphrase(caller) if embedded else embedded_variables(caller)
    return Engine(
        pulumi,
        engine_variables(checkout, pulumi, built_here=built_here, embedded=embedded, caller=caller),
        built_here,
        removed_variables,
    )


def engine_variables(
    checkout: Path, pulumi: Path, *, built_here: bool, embedded: bool, caller: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the variables of an engine's commands.

    The caller's backend and passphrase take precedence, except that no environment inherits those of an embedded one.
    """
    state = state_root(checkout)
    # The folder of an official Pulumi may have an unsupported kubectl.
    folders = [str(state / "bin"), str(pulumi.parent)]
    path = [folder for folder in caller.get("PATH", os.defpath).split(os.pathsep) if folder not in folders]
    variables = {
        "PATH": os.pathsep.join(folders + path),
        # The program imports the package of this command; a project's own .venv need not contain it.
        "PULUMI_PYTHON_CMD": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    if built_here:
        variables["PULUMI_HOME"] = str(state / "pulumi")
        # The plugin is installed; an attempt to download another would only time out.
        variables["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
        # An embedded environment in another backend, by PULUMI_BACKEND_URL, needs the login too.
        if not embedded or (
            caller.get("PULUMI_BACKEND_URL") and "PULUMI_BACKEND_URL" not in embedded_variables(caller)
        ):
            variables["PULUMI_CREDENTIALS_PATH"] = str(credentials_folder(caller))
    # Other environments must not inherit the backend and passphrase of an embedded one from a shell.
    inherited = (
        caller
        if embedded
        else {name: value for name, value in caller.items() if name not in embedded_variables(caller)}
    )
    if url := inherited.get("PULUMI_BACKEND_URL") or ((state / "backend").as_uri() if embedded else None):
        variables["PULUMI_BACKEND_URL"] = _without_sidecars(url)
    passphrases = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")
    if embedded and not any(inherited.get(name) for name in passphrases):
        variables["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(state / "passphrase")
    return variables


def _empty_passphrase(caller: Mapping[str, str]) -> frozenset[str]:
    """Return PULUMI_CONFIG_PASSPHRASE if it is empty: the engine would use it instead of the passphrase's file."""
    return frozenset(name for name in ("PULUMI_CONFIG_PASSPHRASE",) if caller.get(name) == "")


def _without_sidecars(url: str) -> str:
    """Disable `.attrs` files in a backend that is a folder.

    The engine does not write such a file atomically: a kill leaves an empty one, and the engine then refuses to read
    the state. Nothing needs their content; existing ones are still read.
    """
    address, _, query = url.partition("?")
    if not url.startswith("file://") or "metadata" in parse_qs(query, keep_blank_values=True):
        return url
    return f"{address}?{query}&metadata=skip" if query else f"{address}?metadata=skip"


def _provider_version() -> str:
    """Return the version of the provider that is built here. Raises ToolchainError if the program declares another."""
    pinned, installed = python_locks.version("pulumi-kubernetes"), version("pulumi-kubernetes")
    if installed != pinned:
        raise ToolchainError(
            f"pulumi-kubernetes {installed} is installed, and the provider that is built here is {pinned}; install "
            f"pulumi-kubernetes=={pinned}, or the official `pulumi`, which downloads the provider"
        )
    return pinned


def install_plugin(home: Path, provider: Path, version: str) -> Path:
    """Link the Kubernetes provider into the engine's plugin folder; for one on PATH, every command prints a warning."""
    folder = home / "plugins" / f"resource-kubernetes-v{version}"
    folder.mkdir(parents=True, exist_ok=True)
    replace_link(folder / "pulumi-resource-kubernetes", provider)
    return folder


def replace_link(path: Path, target: Path) -> None:
    """Create or replace the symbolic link `path` to `target` atomically."""
    if path.is_symlink() and path.readlink() == target:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(path)


def _turn_off_log(home: Path) -> None:
    """Replace the folder of v3.250's automatic log with a plain file, which disables the log.

    The log records every property of every call, including secrets, grows by hundreds of megabytes in an afternoon and
    makes a preview of the dev environment four times as long. The engine has no option for it.
    """
    logs = home / "logs"
    if logs.is_dir():
        shutil.rmtree(logs)
    logs.touch()
