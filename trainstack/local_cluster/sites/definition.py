"""The model of `site.yaml`: the settings of a site other than its objects."""

import difflib
import json
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from trainstack.local_cluster.errors import LocalClusterError

SITES = Path(__file__).parent
BASE = "base"
"""Value of `build` for the base image."""


class _SiteModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


class SiteImage(_SiteModel):
    """An image of this repository that the site's registry serves under its own names."""

    build: str
    """Folder of a Dockerfile in the site's folder, or `base`."""
    names: tuple[str, ...]
    """The names under which the registry serves the image."""


class Site(_SiteModel):
    """A reference system. The node, the registry and the operators of a local cluster can be those of a site."""

    name: str
    """The folder's name."""
    gpus: int = 0
    """Count of `nvidia.com/gpu` on the real node."""
    gpu_product: str | None = None
    """Required value of the node label `nvidia.com/gpu.product`; None accepts any."""
    node_folders: tuple[str, ...] = ()
    """Absolute paths of the node's folders, for `hostPath` volumes."""
    operators: tuple[Literal["kueue", "training-operator"], ...] = ()
    """Operators that the site's owner installs."""
    operator_kind: Literal["Deployment", "StatefulSet"] = "Deployment"
    """Kind of the owner of the controllers' pods."""
    images: tuple[SiteImage, ...] = ()

    @property
    def folder(self) -> Path:
        return SITES / self.name

    @property
    def objects(self) -> Path | None:
        """The file of its objects; None without objects."""
        file = self.folder / "objects.yaml"
        return file if file.is_file() else None


def site_names() -> list[str]:
    return sorted(file.parent.name for file in SITES.glob("*/site.yaml"))


def load_site(name: str) -> Site:
    """Load a site. Raises LocalClusterError for an unknown name, with the nearest one, and for an invalid file."""
    if name not in site_names():
        nearest_names = difflib.get_close_matches(name, site_names(), 1, 0.4)
        hint = f" Did you mean {nearest_names[0]}?" if nearest_names else ""
        raise LocalClusterError(f"unknown site {name!r}: the sites are {', '.join(site_names())}.{hint}")
    file = SITES / name / "site.yaml"
    return parse_site(name, file.read_text(), str(file))


def parse_site(name: str, text: str, file: str) -> Site:
    """Parse a site's file. Raises LocalClusterError with every fault."""
    try:
        # In JSON mode, strict validation accepts a list for a tuple, and converts nothing else.
        return Site.model_validate_json(json.dumps({**yaml.safe_load(text), "name": name}, default=str))
    except (yaml.YAMLError, TypeError, ValidationError) as error:
        raise LocalClusterError(f"{file}: {error}") from error


def node_folders() -> tuple[str, ...]:
    """Return the node folders of all sites."""
    return tuple(folder for name in site_names() for folder in load_site(name).node_folders)
