"""`site.yaml`: what a site gives besides its objects."""

import difflib
import json
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from trainstack.dev.cluster.errors import ClusterError

SITES = Path(__file__).parent
BASE = "base"
"""Instead of a folder: the base image itself."""


class _Strict(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


class SiteImage(_Strict):
    """An image of ours that the site's registry serves under names of its own."""

    build: str
    """Folder of a Dockerfile, beside site.yaml, or `base`."""
    names: tuple[str, ...]


class Site(_Strict):
    """A site; what is left out it does not have."""

    name: str
    """That of its folder."""
    gpus: int = 0
    """Count of `nvidia.com/gpu` on the real node."""
    gpu_product: str | None = None
    """Value of the node label `nvidia.com/gpu.product`; None: any will do."""
    node_folders: tuple[str, ...] = ()
    """Folders of the node for volumes on hosts; absolute paths."""
    operators: tuple[Literal["kueue", "training-operator"], ...] = ()
    """What is installed before anybody comes."""
    operator_kind: Literal["Deployment", "StatefulSet"] = "Deployment"
    """What owns the pods of the operators' controllers."""
    images: tuple[SiteImage, ...] = ()

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return SITES / self.name

    @property
    def objects(self) -> Path | None:
        """The file of its objects; None where all it gives stands in site.yaml."""
        file = self.folder / "objects.yaml"
        return file if file.is_file() else None


def names() -> list[str]:
    """Every site, sorted."""
    return sorted(file.parent.name for file in SITES.glob("*/site.yaml"))


def load(name: str) -> Site:
    """A site by name.

    Raises ClusterError for a name that no site has, with the nearest one, and for a site.yaml with faults, with all.
    """
    if name not in names():
        near = difflib.get_close_matches(name, names(), 1, 0.4)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise ClusterError(f"There is no site {name!r}: there are {', '.join(names())}.{meant}")
    return parse(name, (SITES / name / "site.yaml").read_text(), str(SITES / name / "site.yaml"))


def parse(name: str, text: str, file: str) -> Site:
    """A site from the text of its file. Raises ClusterError with every fault."""
    try:
        data = yaml.safe_load(text)
        if not isinstance(data, dict):
            raise ClusterError(f"{file}: the file is no map; write `key: value` lines")
        # By JSON's rules a list becomes a tuple, and nothing else is converted.
        return Site.model_validate_json(json.dumps({**data, "name": name}, default=str))
    except yaml.YAMLError as error:
        raise ClusterError(f"{file}: not YAML: {error}") from error
    except ValidationError as error:
        faults = [f"{file}: {'.'.join(map(str, each['loc']))}: {_said(each)}" for each in error.errors()]
        raise ClusterError("\n".join(sorted(faults))) from error


def _said(fault: ErrorDetails) -> str:
    """What is wrong, with what was found; of an unknown key, the nearest there is."""
    if fault["type"] != "extra_forbidden":
        return f"{fault['msg']}, not {fault['input']!r}"
    keys = [to_camel(name) for name in (*Site.model_fields, *SiteImage.model_fields)]
    near = difflib.get_close_matches(str(fault["loc"][-1]), keys, 1)
    return "there is no such key" + (f"; did you mean {near[0]}?" if near else "")


def node_folders() -> tuple[str, ...]:
    """The folders of the node of every site."""
    return tuple(folder for name in names() for folder in load(name).node_folders)
