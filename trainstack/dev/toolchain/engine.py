"""What Pulumi's engine needs around it: a home, a plugin, a backend, a passphrase and an environment."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from trainstack.dev.toolchain import lock
from trainstack.dev.toolchain.places import state_root

DEV_PASSPHRASE = "trainstack-dev"  # noqa: S105  it is no secret
"""Fixed and public: the dev environment is a cluster on the user's own machine and holds no secret. Any other stack has
a passphrase or a secrets provider of its own."""


@dataclass(frozen=True)
class Engine:
    """A Pulumi engine, ready to be run."""

    pulumi: Path
    environment: dict[str, str]
    """Variables to set on top of the caller's. PATH is whole: additions first, then the caller's."""
    own: bool
    """Whether it is the engine built here, with our language host, and not an official one."""


def prepare(checkout: Path, pulumi: Path, *, own: bool, provider: Path | None = None) -> Engine:
    """Lay out the state folder of a checkout for an engine. Repeating it changes nothing.

    Args:
        checkout: whose state folder and Python environment are used.
        pulumi: the engine's program.
        own: whether it was built here.
        provider: the Kubernetes provider's program, for an engine that cannot download it.
    """
    state = state_root(checkout)
    home, backend, passphrase = state / "pulumi", state / "backend", state / "passphrase"
    home.mkdir(parents=True, exist_ok=True)
    backend.mkdir(exist_ok=True)
    _turn_off_log(home)
    if not passphrase.exists():
        passphrase.write_text(DEV_PASSPHRASE + "\n")
    if provider is not None:
        place_plugin(home, provider, lock.version("pulumi-kubernetes"))
    return Engine(pulumi, environment(checkout, pulumi, own=own), own)


def environment(checkout: Path, pulumi: Path, *, own: bool, caller: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of an engine's commands.

    Where state lies and how it is encrypted is the caller's to say, if they do: an environment shared by a team has a
    backend of its own. Only what they leave open gets the checkout's local backend and the dev passphrase.
    """
    state = state_root(checkout)
    python = checkout / ".venv" / "bin" / "python"
    folders = [str(pulumi.parent), str(state / "bin")]
    inherited = [folder for folder in caller.get("PATH", os.defpath).split(os.pathsep) if folder not in folders]
    variables = {
        "PATH": os.pathsep.join(folders + inherited),
        "PULUMI_HOME": str(state / "pulumi"),
        "PULUMI_PYTHON_CMD": str(python if python.exists() else sys.executable),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_BACKEND_URL": _without_sidecars(caller.get("PULUMI_BACKEND_URL") or (state / "backend").as_uri()),
    }
    if own:
        # The plugin is in place: whatever else is asked for, an engine that tries to download it waits for nothing.
        variables["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    if not any(caller.get(name) for name in ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")):
        variables["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(state / "passphrase")
    return variables


def _without_sidecars(url: str) -> str:
    """The backend, told to write no `.attrs` file beside each file of the state, where it is a folder.

    Such a file is not written in one step: a kill leaves an empty one, with which the engine refuses to read the state
    itself. Nothing needs what is in them. What is there already is read as before.
    """
    address, _, query = url.partition("?")
    if not url.startswith("file://") or "metadata" in parse_qs(query, keep_blank_values=True):
        return url
    return f"{address}?{query}&metadata=skip" if query else f"{address}?metadata=skip"


def place_plugin(home: Path, provider: Path, version: str) -> Path:
    """Put the Kubernetes provider where the engine looks for plugins.

    On PATH it would be found too, but then with a warning on every command.
    """
    folder = home / "plugins" / f"resource-kubernetes-v{version}"
    folder.mkdir(parents=True, exist_ok=True)
    link(folder / "pulumi-resource-kubernetes", provider)
    return folder


def link(place: Path, target: Path) -> None:
    """Make `place` a symbolic link to `target`, whatever it was. Others see the old or the new, never nothing."""
    if place.is_symlink() and place.readlink() == target:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(place)


def _turn_off_log(home: Path) -> None:
    """Put a plain file where v3.250 makes its folder for logs, which turns its automatic log off.

    That log holds every property of every call (secrets too), grows by hundreds of megabytes in an afternoon and makes
    a preview of the dev environment four times as long; the engine has no switch for it.
    """
    logs = home / "logs"
    if logs.is_dir():
        shutil.rmtree(logs)
    logs.touch()
