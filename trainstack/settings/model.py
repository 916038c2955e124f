"""The settings of one environment."""

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from pydantic import Field

from trainstack.settings.base import ImageDigest, Section, Text, UniqueNames
from trainstack.settings.sections.checks import Checks
from trainstack.settings.sections.code import Commit
from trainstack.settings.sections.environment import Environment, ExistingVolume
from trainstack.settings.sections.objects import Objects
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.plan import Plan
from trainstack.settings.sections.queues import Queues
from trainstack.settings.sections.secrets import Secrets
from trainstack.settings.sections.storage import Storage, Volume
from trainstack.settings.sections.sweeps import Sweeps
from trainstack.settings.sections.tenants import Tenants
from trainstack.settings.sections.workloads import Resources, Workload, Workloads
from trainstack.settings.values.kubernetes import DnsLabel, ImageReference, Registry
from trainstack.settings.values.paths import named_element_paths
from trainstack.settings.values.stack_name import StackName


class Loader(Section):
    """The Job whose pod transfers files to and from a volume (`trainstack upload`, `ls`, `fetch`)."""

    image: ImageReference = "busybox:1.35"
    """busybox, or any image with a shell and GNU's coreutils, findutils and tar."""
    image_pull_secrets: UniqueNames = ()
    queue: DnsLabel | None = None
    """The LocalQueue; None: the queue of the runs that mount the volume, else the namespace's first queue, if any."""
    name: DnsLabel = Field("loader", max_length=40)
    """The prefix of the Job's name."""
    naming: Literal["derived", "generated"] = "derived"
    """The rest of the name: `derived` by Trainstack or, as some clusters require, `generated` by the API server."""
    resources: Resources = Resources(requests={"cpu": "0", "memory": "0"}, limits={"cpu": "1", "memory": "256Mi"})
    """Requests nothing by default, so it is admitted even when runs hold the whole quota."""


class Cluster(Section):
    """Section `trainstack:cluster`: the cluster that the objects are created in."""

    local: bool = False
    """Use the local cluster, unless KUBECONFIG is set. False: KUBECONFIG or ~/.kube/config, as kubectl does."""
    context: Text | None = None
    """The kubeconfig context; None: the current one."""
    identity: Text | None = None
    """The cluster of this environment: the UID of its namespace kube-system (for a tenant, of the tenant's namespace),
    or the sha256 of its CA. Other clusters are never changed. None: the cluster of the stack's first `up`, which the
    stack records. Set this when another cluster replaces it."""
    take_over: tuple[Annotated[str, Field(pattern=r"^([0-9a-f]{32}|none)$")], ...] = ()
    """Identities (annotation `trainstack.dev/state`) of lost or abandoned states of this stack, whose objects this
    state takes over. `none`: objects without an identity. Remove the entry after the change."""
    registry: Registry = "registry.local"
    """The registry of the images that this repository builds."""
    loader: Loader = Loader()
    git_image: ImageReference = "alpine/git:2.47.2"
    """The image that checks out a workload's `code`: with `sh`, `git` 2.29 or later, and `ssh` for ssh addresses."""


class Settings(Section):
    stack: StackName
    """`dev` for `Pulumi.dev.yaml`."""
    environment: Environment = Environment()
    cluster: Cluster = Cluster()
    storage: Storage = Storage()
    queues: Queues = Queues()
    operators: Operators = Operators()
    tenants: Tenants = Tenants()
    secrets: Secrets = Secrets()
    objects: Objects = Objects()
    workloads: Workloads = Field(default_factory=Workloads)
    sweeps: Sweeps = Sweeps()
    checks: Checks = Checks()
    plan: Plan = Plan()
    pins: dict[str, ImageDigest] = Field(default_factory=dict)
    """Digests by image reference, from `pins/<stack>.yaml`."""
    code_pins: dict[str, Commit] = Field(default_factory=dict)
    """Commits of branches and tags by `<git> <revision>`, from the same file."""

    @property
    def mountable_volumes(self) -> tuple[Volume | ExistingVolume, ...]:
        """The volumes that runs can mount: those of this stack, then those of other owners."""
        return (*self.storage.volumes, *self._claims_of_objects, *self.environment.existing.volumes)

    @property
    def default_namespace(self) -> str | None:
        """The only namespace of the environment; None if it has several, or none."""
        environment = self.environment
        names = {*(namespace.name for namespace in environment.namespaces), *environment.existing.namespaces}
        return names.pop() if len(names) == 1 else None

    @property
    def _claims_of_objects(self) -> tuple[ExistingVolume, ...]:
        """The claims of section `objects`, as far as runs can mount them."""
        claims = (manifest for manifest in self.objects.manifests if manifest["kind"] == "PersistentVolumeClaim")
        return tuple(
            # The API server validates the values.
            ExistingVolume.model_construct(
                name=claim["metadata"]["name"],
                namespace=namespace,
                access_modes=tuple((claim.get("spec") or {}).get("accessModes") or ()) or None,
            )
            for claim in claims
            if (namespace := claim["metadata"].get("namespace", self.default_namespace)) is not None
        )

    @property
    def volume_namespaces(self) -> frozenset[str]:
        """The namespaces of volumes, in which data loaders may run."""
        return frozenset(volume.namespace for volume in self.mountable_volumes)

    def runs_and_trials(self) -> Iterator[tuple[str, Workload]]:
        """Yield each run, and the `run` of each sweep, with its path in the settings."""
        runs, sweeps = self.workloads.runs, self.sweeps.sweeps
        yield from zip(named_element_paths("workloads.runs", [run.name for run in runs]), runs, strict=True)
        for path, sweep in zip(
            named_element_paths("sweeps.sweeps", [sweep.name for sweep in sweeps]), sweeps, strict=True
        ):
            yield f"{path}.run", sweep.run

    def without_excluded_runs(self) -> "Settings":
        """Return the settings without the runs that `workloads.exclude` lists, and without dependencies on them."""
        excluded = self.workloads.exclude

        def without_excluded_dependencies(run: Workload) -> Workload:
            return run.model_copy(update={"depends_on": tuple(name for name in run.depends_on if name not in excluded)})

        runs = tuple(run for run in self.workloads.runs if run.name not in excluded)
        workloads = self.workloads.model_copy(update={"runs": runs})
        return (
            self.model_copy(update={"workloads": workloads}).map_runs(without_excluded_dependencies)
            if excluded
            else self
        )

    def map_runs(self, change: Callable[[Workload], Workload]) -> "Settings":
        """Return the settings with `change` applied to each run and to the `run` of each sweep."""
        runs = tuple(map(change, self.workloads.runs))
        sweeps = tuple(sweep.model_copy(update={"run": change(sweep.run)}) for sweep in self.sweeps.sweeps)
        return self.model_copy(
            update={
                "workloads": self.workloads.model_copy(update={"runs": runs}),
                "sweeps": self.sweeps.model_copy(update={"sweeps": sweeps}),
            }
        )

    def pinned_reference(self, reference: str) -> str:
        """Return the reference with its pinned digest (`name:tag@sha256:…`); unchanged if it has one or has no pin."""
        digest = self.pins.get(reference)
        return reference if digest is None or "@" in reference else f"{reference}@{digest}"
