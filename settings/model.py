"""An environment: everything one stack declares."""

from pydantic import Field

from settings.base import DnsName, Section
from settings.environment import Environment
from settings.operators import Operators
from settings.queues import Queues
from settings.storage import Storage
from settings.tenants import Tenants
from settings.workloads import Workloads


class Cluster(Section):
    """Section `trainstack:cluster`: where the objects go."""

    context: str | None = None
    """The kubeconfig context; None: the current one. The file is KUBECONFIG's: the person's, not the environment's."""
    registry: str = "registry.local"
    """Where images that this repository builds are pushed and pulled."""
    loader_image: str = "busybox:1.35"
    """What a data loader runs, to bring files to a volume and back: needs `sh`, `tar`, `find` and `sha256sum`."""
    git_image: str = "alpine/git:2.47.2"
    """What checks a workload's `code` out: needs `sh`, `git` 2.29 or later, and `ssh` where it is read by ssh."""


class Settings(Section):
    """A loaded environment."""

    stack: DnsName
    """The Pulumi stack: `dev` for `Pulumi.dev.yaml`."""
    environment: Environment = Environment()
    cluster: Cluster = Cluster()
    storage: Storage = Storage()
    queues: Queues = Queues()
    operators: Operators = Operators()
    tenants: Tenants = Tenants()
    workloads: Workloads = Field(default_factory=Workloads)
