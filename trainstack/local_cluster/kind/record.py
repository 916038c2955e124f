"""The record of a kind cluster in its state folder. A folder with a record belongs to the kind driver."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from trainstack.local_cluster.component_status import write_atomically
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.kind.engine import ENGINE_NAMES, ContainerEngine


@dataclass(frozen=True, kw_only=True)
class KindRecord:
    """The content of `driver.json`."""

    engine: str
    """Name of the container engine."""
    name: str
    """kind's name of the cluster, derived from the state folder."""
    node_id: str
    """Id of the node's container; empty during its creation. This folder did not create a container with another id."""
    registry_port: int
    """The registry's port on this machine's loopback address, which is fixed while the node exists."""
    node_image: str
    """The node image; empty for kind's default."""
    registry_image: str

    @property
    def node(self) -> str:
        """Name of the node and of its container, as kind derives it."""
        return f"{self.name}-control-plane"

    @property
    def registry(self) -> str:
        """Name of the registry's container."""
        return f"{self.name}-registry"

    def container_engine(self) -> ContainerEngine:
        return ContainerEngine(next(name for name in ENGINE_NAMES if name == self.engine))

    def write(self, path: Path) -> None:
        write_atomically(path, json.dumps({"driver": "kind", **asdict(self)}, indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "KindRecord | None":
        """Read a record; return None if the file is missing. Raises LocalClusterError if it is invalid."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LocalClusterError(f"{path} is not valid JSON: {error}") from error
        if not isinstance(data, dict) or data.pop("driver", "") != "kind" or data.get("engine") not in ENGINE_NAMES:
            raise LocalClusterError(f"{path} is not the record of a kind cluster")
        try:
            return cls(**data)
        except TypeError as error:
            raise LocalClusterError(f"{path} was written by another version: {error}") from error
