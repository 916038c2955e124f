"""The pods of a launch of any kind, read back from its objects."""

from collections.abc import Iterable, Sequence

from trainstack.objects.labels import OBJECT
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.kind import Body, LaunchedPods
from trainstack.runs.manifests.registry import WORKLOAD_KINDS


def launched_pods(launch: Body, companions: Iterable[Body] = ()) -> tuple[LaunchedPods, ...]:
    """Return the pods of a launch by role; () for an unknown kind. `companions`: its companions, as far as known."""
    is_object = OBJECT in (launch.get("metadata", {}).get("annotations") or {})
    kind = WORKLOAD_KINDS.get("Object" if is_object else launch["kind"])
    return () if kind is None else tuple(kind.launched_pods(launch, tuple(companions)))


def mounted_config_map(objects: Sequence[Body], volume: str) -> str | None:
    """Return the name of the ConfigMap that the pods of a launch mount as this volume; None if there is none.

    `objects`: as in `Ledger.objects`. Raises WorkloadError if they are from an edited ledger.
    """
    try:
        return _find_mounted_config_map(objects, volume)
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        name = objects[-1]["metadata"].get("name")
        raise WorkloadError(
            f"the pods of launch {name} cannot be read ({error!r:.200}): its ledger was edited. Restore the ledger"
        ) from error


def _find_mounted_config_map(objects: Sequence[Body], volume: str) -> str | None:
    *companions, launch = objects
    for pods in launched_pods(launch, companions):
        for pod_volume in pods.spec.get("volumes") or ():
            if pod_volume["name"] == volume:
                # The volume of a dispatched launch is projected, see `trial_pod.mount_files_from_annotations`.
                sources = pod_volume["projected"]["sources"] if "projected" in pod_volume else [pod_volume]
                return next(str(source["configMap"]["name"]) for source in sources if "configMap" in source)
    return None
