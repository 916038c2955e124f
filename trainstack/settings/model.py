"""An environment: everything one stack declares."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from trainstack.settings.base import DnsLabel, ImageDigest, Section, Text, UniqueNames
from trainstack.settings.sections.code import Commit
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.forecast import Plan
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import Queues
from trainstack.settings.sections.secrets import Secrets
from trainstack.settings.sections.silences import Checks
from trainstack.settings.sections.storage import Storage
from trainstack.settings.sections.sweeps import Sweeps
from trainstack.settings.sections.tenants import Tenants
from trainstack.settings.sections.workloads import Resources, Workload, Workloads
from trainstack.settings.values.kubernetes import ImageReference, Registry
from trainstack.settings.values.paths import elements
from trainstack.settings.values.stack_name import StackName


class Loader(Section):
    """The Job through whose pod files go to a volume and back (`trainstack upload`, `ls`, `fetch`)."""

    image: ImageReference = "busybox:1.35"
    """busybox, or any image with a shell and GNU's coreutils, findutils and tar."""
    image_pull_secrets: UniqueNames = ()
    """As a run's."""
    queue: DnsLabel | None = None
    """The LocalQueue; None: that of the runs that mount the volume, else the namespace's first, if it has one."""
    name: DnsLabel = Field("loader", max_length=40)
    """What its name begins with."""
    naming: Literal["derived", "generated"] = "derived"
    """Who makes the rest of the name: we, or with `generateName` the API server, which some clusters demand."""
    resources: Resources = Resources(requests={"cpu": "0", "memory": "0"}, limits={"cpu": "1", "memory": "256Mi"})
    """By default it requests nothing, so that it comes where runs that wait for its files have taken all quota, too."""


class Cluster(Section):
    """Section `trainstack:cluster`: where the objects go."""

    context: Text | None = None
    """The kubeconfig context; None: the current one. The file is KUBECONFIG's: the person's, not the environment's."""
    identity: Text | None = None
    """The cluster that this environment is for: the UID of its namespace kube-system, or for a tenant that of a
    namespace of his, or the sha256 of the cluster's CA; on another one nothing is changed. None: the one that the stack
    was first brought up on, which the stack remembers. To be set when that one is gone and another takes its place."""
    take_over: tuple[Annotated[str, Field(pattern=r"^([0-9a-f]{32}|none)$")], ...] = ()
    """States of this stack, by their identities (annotation `trainstack.dev/state`), whose objects this state takes
    over: one that is lost, or no longer used. `none`: the objects that bear no identity. To be removed afterwards."""
    registry: Registry = "registry.local"
    """Where images that this repository builds are pushed and pulled."""
    loader: Loader = Loader()
    git_image: ImageReference = "alpine/git:2.47.2"
    """What checks a workload's `code` out: needs `sh`, `git` 2.29 or later, and `ssh` where it is read by ssh."""


class Settings(Section):
    """A loaded environment."""

    stack: StackName
    """The Pulumi stack: `dev` for `Pulumi.dev.yaml`."""
    environment: Environment = Environment()
    cluster: Cluster = Cluster()
    storage: Storage = Storage()
    queues: Queues = Queues()
    operators: Operators = Operators()
    tenants: Tenants = Tenants()
    secrets: Secrets = Secrets()
    workloads: Workloads = Field(default_factory=Workloads)
    sweeps: Sweeps = Sweeps()
    checks: Checks = Checks()
    plan: Plan = Plan()
    pins: dict[str, ImageDigest] = Field(default_factory=dict)
    """From an image's reference to the digest that it stands for: the environment's file `pins/<stack>.yaml`."""
    code_pins: dict[str, Commit] = Field(default_factory=dict)
    """From `<git> <revision>` to the commit that the branch or tag stands for: of the same file."""

    def trained(self) -> Iterator[tuple[str, Workload]]:
        """Everything that is trained, with its path: the runs, and of each sweep what its trials are made of."""
        runs, sweeps = self.workloads.runs, self.sweeps.sweeps
        yield from zip(elements("workloads.runs", [run.name for run in runs]), runs, strict=True)
        for path, sweep in zip(elements("sweeps.sweeps", [each.name for each in sweeps]), sweeps, strict=True):
            yield f"{path}.run", sweep.run

    def without_excluded(self) -> "Settings":
        """The same without the runs that `workloads.exclude` names, and without dependencies on them."""
        excluded = {*self.workloads.exclude}
        if not excluded:
            return self

        def independent(run: Workload) -> Workload:
            return run.model_copy(update={"depends_on": tuple(name for name in run.depends_on if name not in excluded)})

        runs = tuple(independent(run) for run in self.workloads.runs if run.name not in excluded)
        sweeps = tuple(sweep.model_copy(update={"run": independent(sweep.run)}) for sweep in self.sweeps.sweeps)
        return self.model_copy(
            update={
                "workloads": self.workloads.model_copy(update={"runs": runs}),
                "sweeps": self.sweeps.model_copy(update={"sweeps": sweeps}),
            }
        )

    def pinned(self, reference: str) -> str:
        """The reference with its digest, `name:tag@sha256:…`; as it is where it has one, or none is pinned."""
        digest = self.pins.get(reference)
        return reference if digest is None or "@" in reference else f"{reference}@{digest}"
