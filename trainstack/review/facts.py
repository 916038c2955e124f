"""The effects of a change on runs, volumes, quota and queues, from the objects before and after."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

from trainstack.live.paths import is_cluster_scoped
from trainstack.objects.labels import LAUNCH, RUN, SET, SWEEP, Manifest
from trainstack.platform.teams import TENANT_PREFIX
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.settings.values.quantities import amount, canonical_quantity

Op = Literal["create", "import", "update", "replace", "delete"]
Meaning = Literal[
    "volume-lost", "volume-lost-replaced", "volume-kept", "volume-kept-replaced", "volume-resized", "volume-edited",
    "volume-made", "namespace-lost", "kind-lost", "run-stopped", "run-dropped", "run-removed", "run-launched",
    "run-declared", "run-edited", "trial-removed", "sweep-edited", "queue-closed", "queue-moved", "queue-opened",
    "quota-removed", "quota-moved", "quota-made", "rights-taken", "rights-given", "controller-removed",
    "controller-changed", "controller-installed",
    "object-imported",
]  # fmt: skip

SENTENCES: Mapping[Meaning, str] = {
    "volume-lost": "**Deletes volume {} and its data.**",
    "volume-lost-replaced": "**Replaces volume {} and deletes its data.**",
    "namespace-lost": "**Deletes namespace {} and everything in it.**",
    "kind-lost": "**Deletes CustomResourceDefinition {} and every team's objects of that kind.**",
    "run-stopped": "**Stops run {}**, which is listed in `stop` ({} {}).",
    "run-dropped": "No longer declares run {} ({} {}); if it is active, `up` refuses unless `stop` lists it.",
    "run-removed": "Deletes {} {} of run {}, which has ended; its record remains on its volume.",
    "trial-removed": "Deletes {} {} of trial {}: it has ended, or is queued and its parameter set was removed.",
    "sweep-edited": "Changes the parameter sets of sweep {}, or its run; only new trials are launched.",
    "run-launched": "Launches run {} ({} {}): {}.",
    "run-declared": "Declares run {} ({} {}), which is launched unless it already was: {}.",
    "run-edited": "Edits run {} ({} {}); the edit takes effect at the next launch, not for an active one.",
    "volume-kept": "Releases volume {}; it remains in the cluster with its data.",
    "volume-kept-replaced": "Replaces volume {}; the old one remains in the cluster with its data.",
    "volume-resized": "Resizes volume {} from {} to {}.",
    "volume-edited": "Edits volume {}.",
    "volume-made": "Creates volume {} of {}.",
    "object-imported": "Imports {} {}, which exists in the cluster; this environment manages it from now on.",
    "queue-closed": "Deletes queue {}; nothing can be queued in it any more.",
    "queue-moved": "Points queue {} to cluster queue {} instead of {}.",
    "queue-opened": "Creates queue {} with the quota of cluster queue {}.",
    "quota-removed": "Deletes cluster queue {}: {}.",
    "quota-moved": "Changes the quota of cluster queue {}: {} from {} to {}.",
    "quota-made": "Creates cluster queue {}: {}.",
    "rights-taken": "Revokes rights in namespace {} from {}.",
    "rights-given": "Grants rights in namespace {} to {}.",
    "controller-removed": "Removes controller {}.",
    "controller-changed": "Changes controller {}, which restarts.",
    "controller-installed": "Installs controller {}.",
}
"""The sentence for each meaning, the most severe first, with a `{}` for each name of the fact."""

_ORDER = {meaning: place for place, meaning in enumerate(SENTENCES)}
_LIMITS = {"nominalQuota": "", "borrowingLimit": " borrowing limit", "lendingLimit": " lending limit"}
_COMPANION_KINDS = ("ConfigMap", "TrainingRuntime")
"""The kinds of a run's objects, besides its launch, that have the run's label."""


@dataclass(frozen=True)
class Fact:
    """One effect of a change."""

    meaning: Meaning
    names: tuple[str, ...]


@dataclass(frozen=True)
class ChangeStep:
    """The change of one object, with its manifests before and after."""

    op: Op
    old: Manifest | None
    new: Manifest | None
    retained: bool = False
    """Whether the object remains in the cluster after its deletion."""

    @property
    def body(self) -> Manifest:
        """The new object, or the deleted one."""
        return self.new or self.old or {}


@dataclass(frozen=True)
class RunContext:
    """The context that decides on the meaning of a run's deletion or creation."""

    live: bool
    """Whether the source is a preview, which reads the cluster and refuses to stop an active run outside `stop`."""
    stop: Collection[str] = ()
    """The ids of runs and sweeps that this change may stop."""


def find_facts(steps: Iterable[ChangeStep], context: RunContext) -> list[Fact]:
    """Return the effects of the steps, the most severe first."""
    step_facts = [fact for step in steps for fact in _facts_of_step(step, context)]
    return sorted(step_facts, key=lambda fact: (_ORDER[fact.meaning], fact.names))


def _facts_of_step(step: ChangeStep, context: RunContext) -> Iterable[Fact]:
    kind = str(step.body.get("kind"))
    if step.op == "import":
        return (Fact("object-imported", _kind_and_name(step.body)),)
    if RUN in labels_of(step.body) and kind not in _COMPANION_KINDS:
        return _run_facts(step, context)
    return _FACT_READERS[kind](step) if kind in _FACT_READERS else ()


def _run_facts(step: ChangeStep, context: RunContext) -> Iterator[Fact]:
    old, new = step.old, step.new
    if old is not None and new is not None:
        if _is_indexed_job(old) and _is_indexed_job(new):
            # The files have one Job for all trials; only the cluster shows which trials are new.
            yield Fact("sweep-edited", (labels_of(new)[SWEEP],))
            return
        if labels_of(old)[RUN] == labels_of(new).get(RUN):
            yield Fact("run-edited", (labels_of(new)[RUN], *_kind_and_name(new)))
            return
    if old is not None and step.op in ("delete", "replace"):
        run, sweep = labels_of(old)[RUN], labels_of(old).get(SWEEP)
        if run in context.stop or sweep in context.stop:
            yield Fact("run-stopped", (run, *_kind_and_name(old)))
        elif context.live:
            yield Fact("run-removed" if sweep is None else "trial-removed", (*_kind_and_name(old), run))
        else:
            yield Fact("run-dropped", (run, *_kind_and_name(old)))
    if new is not None and step.op in ("create", "replace"):
        yield Fact(
            "run-launched" if context.live else "run-declared",
            (labels_of(new)[RUN], *_kind_and_name(new), _launch_size(new)),
        )


def _is_indexed_job(body: Manifest) -> bool:
    """Return whether a launch is the indexed Job of all trials of a sweep."""
    return SWEEP in labels_of(body) and SET not in labels_of(body)


def _volume_facts(step: ChangeStep) -> Iterator[Fact]:
    name = _qualified_name(step.body)
    if step.op == "create":
        yield Fact("volume-made", (name, _capacity(step.new)))
    elif step.op == "delete":
        yield Fact("volume-kept" if step.retained else "volume-lost", (name,))
    elif step.op == "replace":
        yield Fact("volume-kept-replaced" if step.retained else "volume-lost-replaced", (name,))
    elif _capacity(step.old) != _capacity(step.new):
        yield Fact("volume-resized", (name, _capacity(step.old), _capacity(step.new)))
    else:
        yield Fact("volume-edited", (name,))


def _cluster_queue_facts(step: ChangeStep) -> Iterator[Fact]:
    name = _qualified_name(step.body)
    old, new = _quotas(step.old), _quotas(step.new)
    if step.op in ("create", "delete"):
        quota = ", ".join(f"{key} {value}" for key, value in (new or old).items()) or "nothing"
        yield Fact("quota-made" if step.op == "create" else "quota-removed", (name, quota))
        return
    for key in dict.fromkeys((*old, *new)):
        old_value, new_value = old.get(key, "none"), new.get(key, "none")
        if old_value != new_value:
            yield Fact("quota-moved", (name, key, old_value, new_value))


def _local_queue_facts(step: ChangeStep) -> Iterator[Fact]:
    name = _qualified_name(step.body)
    old, new = (str((body or {}).get("spec", {}).get("clusterQueue")) for body in (step.old, step.new))
    if step.op == "create":
        yield Fact("queue-opened", (name, new))
    elif step.op == "delete":
        yield Fact("queue-closed", (name,))
    elif old != new:
        yield Fact("queue-moved", (name, new, old))


def _rights_facts(step: ChangeStep) -> Iterator[Fact]:
    """Yield the facts on the bindings of teams; the subjects of other bindings are controllers."""
    if not _qualified_name(step.body).rpartition("/")[2].startswith(TENANT_PREFIX):
        return
    old, new = (
        [f"{subject['kind']} {subject['name']}" for subject in (body or {}).get("subjects") or ()]
        for body in (step.old, step.new)
    )
    namespace = str(step.body["metadata"].get("namespace"))
    if revoked := [subject for subject in old if subject not in new]:
        yield Fact("rights-taken", (namespace, ", ".join(revoked)))
    if granted := [subject for subject in new if subject not in old]:
        yield Fact("rights-given", (namespace, ", ".join(granted)))


def _loss_facts(step: ChangeStep, meaning: Meaning) -> Iterator[Fact]:
    if step.op in ("delete", "replace") and not step.retained:
        yield Fact(meaning, (_qualified_name(step.old or {}),))


def _controller_facts(step: ChangeStep) -> Iterator[Fact]:
    meanings: Mapping[Op, Meaning] = {"create": "controller-installed", "delete": "controller-removed"}
    yield Fact(meanings.get(step.op, "controller-changed"), (_qualified_name(step.body),))


_FACT_READERS: Mapping[str, Callable[[ChangeStep], Iterator[Fact]]] = {
    "PersistentVolumeClaim": _volume_facts,
    "PersistentVolume": _volume_facts,
    "ClusterQueue": _cluster_queue_facts,
    "LocalQueue": _local_queue_facts,
    "Namespace": partial(_loss_facts, meaning="namespace-lost"),
    "RoleBinding": _rights_facts,
    "CustomResourceDefinition": partial(_loss_facts, meaning="kind-lost"),
    "Deployment": _controller_facts,
}


def labels_of(body: Manifest) -> Mapping[str, str]:
    return body.get("metadata", {}).get("labels") or {}


def _kind_and_name(body: Manifest) -> tuple[str, str]:
    return body["kind"], _qualified_name(body)


def _qualified_name(body: Manifest) -> str:
    metadata = body.get("metadata", {})
    # The API server completes a generated name, but the label has the launch's name already.
    name = metadata.get("name") or labels_of(body).get(LAUNCH)
    # The provider adds a namespace even to cluster-scoped objects while their definitions do not exist.
    namespace = None if is_cluster_scoped(str(body.get("kind"))) else metadata.get("namespace")
    return "/".join(part for part in (namespace, name) if part)


def _capacity(body: Manifest | None) -> str:
    spec = (body or {}).get("spec", {})
    capacity = spec.get("capacity") or spec.get("resources", {}).get("requests") or {}
    return str(capacity.get("storage", "unknown size"))


def _quotas(body: Manifest | None) -> dict[str, str]:
    """Return each quota and limit by its resource and flavor, such as `cpu on flavor a100`."""
    return {
        f"{resource['name']}{suffix} on flavor {flavor['name']}": str(resource[limit])
        for group in (body or {}).get("spec", {}).get("resourceGroups", ())
        for flavor in group["flavors"]
        for resource in flavor["resources"]
        for limit, suffix in _LIMITS.items()
        if limit in resource
    }


def _launch_size(launch: Manifest) -> str:
    """Return the number of pods that run at the same time, and the sum of their requests."""
    pod_count = 0
    total_requests: defaultdict[str, Fraction] = defaultdict(Fraction)
    for group in launched_pods(launch):
        pod_count += group.count
        for container in group.spec["containers"]:
            resources = container.get("resources", {})
            for name, quantity in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
                total_requests[name] += group.count * amount(str(quantity))
    requests = [f"{name} {_format_quantity(name, value)}" for name, value in sorted(total_requests.items())]
    return ", ".join([f"{pod_count} pod{'' if pod_count == 1 else 's'}", *requests])


def _format_quantity(name: str, value: Fraction) -> str:
    if "memory" in name or "storage" in name:
        mebibytes = value / 1024**2
        return canonical_quantity(f"{mebibytes}Mi") if mebibytes.denominator == 1 else f"{float(mebibytes):.1f}Mi"
    return canonical_quantity(f"{int(value * 1000)}m")
