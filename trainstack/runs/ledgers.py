"""The ConfigMaps of a launch: the wrapper that its pods run, and the ledger that claims and then records it."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainstack.objects.labels import CLAIM, KIND, LEDGER, RUN, SWEEP, WORKLOAD, WRAPPER, Manifest, metadata
from trainstack.objects.launch_kinds import LAUNCHES
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import canonical
from trainstack.runs.manifests.launched_pods import mounted
from trainstack.runs.manifests.pod_template import WRAPPER_FILE, WRAPPER_VOLUME
from trainstack.runs.names import ledger_name, wrapper_name

LEDGER_OF_RUN = "run"
"""The value of the label LEDGER on a run's ledger."""
LEDGER_OF_BATCH = "batch"
"""The value of the label LEDGER on the ledger of an Indexed Job of many trials."""
LAUNCHED = "launched"
"""The key that marks a claim as launched; its value is always `true`."""
_MOST_BYTES = 1 << 20
"""The API server's limit on the data of a ConfigMap (MaxSecretSize in Kubernetes' core validation)."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    run_id: str
    workload: str
    namespace: str
    attempt: int
    launch_name: str
    launch: Mapping[str, Any]
    """The launch's manifest as declared."""
    companions: tuple[Mapping[str, Any], ...] = ()
    """The objects that the launch refers to, as declared with it."""
    sweep: str = ""
    """The sweep that the launch belongs to; empty for a run outside sweeps."""
    trials: tuple[str, ...] = ()
    """For an Indexed Job of many trials, their run ids by completion index. An entry is empty if the trial no longer
    belongs to this launch, because its set was removed or because it failed and was launched again. Empty for a run."""

    @property
    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """The companions and the launch, in the order of their creation."""
        return (*self.companions, self.launch)


def wrapper_config_map(namespace: str, stack: str, source: str) -> Manifest:
    """The ConfigMap with the wrapper's source. It is named after its content, so it never changes under a pod."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(wrapper_reference(source), stack, namespace=namespace, labels={WRAPPER: LEDGER_OF_RUN}),
        "immutable": True,
        "data": {WRAPPER_FILE: source},
    }


def wrapper_reference(source: str) -> str:
    return wrapper_name(hashlib.sha256(source.encode()).hexdigest())


def wrapper_sources(config_maps: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The sources in live wrapper ConfigMaps, by the name derived from the content, which differs for an edited one."""
    sources = ((each.get("data") or {}).get(WRAPPER_FILE, "") for each in config_maps)
    return {wrapper_reference(source): source for source in sources if source}


def wrapper_of(objects: Sequence[Mapping[str, Any]]) -> str | None:
    """The wrapper that the pods of a launch mount, if they are managed. Raises WorkloadError for an edited ledger."""
    try:
        return mounted(objects, WRAPPER_VOLUME)
    except (AttributeError, KeyError, TypeError) as error:
        name = objects[-1]["metadata"].get("name")
        raise WorkloadError(
            f"the pods of launch {name} cannot be read ({error!r}): its ledger was edited. Restore the ledger"
        ) from error


@dataclass(frozen=True)
class Claim:
    """A ledger whose launch was claimed and never confirmed: an `up` was interrupted, or the launch was refused."""

    ledger: Ledger
    since: datetime


def ledger_config_map(stack: str, ledger: Ledger) -> Manifest:
    """The ConfigMap that records a launch. Raises WorkloadError if it exceeds the maximum size of a ConfigMap.

    It is applied with force, because it completes an existing claim; other field managers are checked beforehand.
    """
    of = LEDGER_OF_BATCH if ledger.trials else LEDGER_OF_RUN
    labels = {LEDGER: of, RUN: ledger.run_id, WORKLOAD: ledger.workload}
    if ledger.sweep:
        labels[SWEEP] = ledger.sweep
    if ledger.launch["kind"] not in LAUNCHES:
        labels[KIND] = ledger.launch["kind"]
    data = {
        "run": ledger.run_id,
        "workload": ledger.workload,
        "attempt": str(ledger.attempt),
        "launchName": ledger.launch_name,
        "launch": canonical(ledger.launch),
        **({"companions": canonical(ledger.companions)} if ledger.companions else {}),
        **({"trials": canonical(ledger.trials)} if ledger.trials else {}),
        LAUNCHED: "true",
    }
    if (size := sum(len(key) + len(value) for key, value in data.items())) > _MOST_BYTES:
        raise WorkloadError(
            f"workload {ledger.workload}: the ledger of {ledger.run_id} needs {size} bytes, but a ConfigMap holds "
            f"at most {_MOST_BYTES}; a run that cannot be recorded is not launched. Shorten its arguments, environment "
            "or annotations, or move long values into files in the image or on a volume"
        )
    name = ledger_name(ledger.run_id)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, stack, namespace=ledger.namespace, labels=labels, adopt=True),
        "data": data,
    }


def claim_config_map(ledger: Mapping[str, Any], now: datetime) -> Manifest:
    """The claim that precedes a launch: the ledger that will replace it, with its owner, but not marked as launched."""
    annotations = {**ledger["metadata"].get("annotations", {}), CLAIM: now.isoformat(timespec="seconds")}
    return {
        **ledger,
        "metadata": {**ledger["metadata"], "annotations": annotations},
        "data": {key: value for key, value in ledger["data"].items() if key != LAUNCHED},
    }


def read_claim(config_map: Mapping[str, Any]) -> Claim | None:
    """The claim in a ledger's ConfigMap; None if the launch was made. Raises WorkloadError as `read_ledger` does."""
    since = (config_map["metadata"].get("annotations") or {}).get(CLAIM)
    if since is None or LAUNCHED in (config_map.get("data") or {}):
        return None
    try:
        claimed = datetime.fromisoformat(since)
    except ValueError as error:
        metadata = config_map["metadata"]
        raise WorkloadError(
            f"ConfigMap {metadata['namespace']}/{metadata['name']}: annotation {CLAIM} is {since!r}, not a valid time: "
            "it was edited. Restore it"
        ) from error
    return Claim(read_ledger(config_map), claimed)


def read_ledger(config_map: Mapping[str, Any]) -> Ledger:
    """The inverse of `ledger_config_map`. Raises WorkloadError if the ConfigMap is not a valid ledger."""
    name, namespace = config_map["metadata"]["name"], config_map["metadata"]["namespace"]
    data = config_map.get("data") or {}
    try:
        return Ledger(
            run_id=data["run"],
            workload=data["workload"],
            namespace=namespace,
            attempt=int(data["attempt"]),
            launch_name=data["launchName"],
            launch=_object(json.loads(data["launch"])),
            companions=tuple(map(_object, _list(data.get("companions", "[]")))),
            sweep=config_map["metadata"]["labels"].get(SWEEP, ""),
            trials=tuple(map(_text, _list(data.get("trials", "[]")))),
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise WorkloadError(
            f"ConfigMap {namespace}/{name} records a launch, but cannot be read ({error!r}): it was edited. Restore "
            "it; without it the run counts as never launched and is trained again"
        ) from error


def _object(value: Any) -> Mapping[str, Any]:
    """Return the value if it is shaped like a manifest; raise TypeError otherwise."""
    if not isinstance(value, dict) or not isinstance(value["kind"], str) or not isinstance(value["metadata"], dict):
        raise TypeError(f"not a manifest: {str(value)[:100]}")
    return value


def _list(text: str) -> list[Any]:
    value = json.loads(text)
    if not isinstance(value, list):
        raise TypeError(f"not a list: {text[:100]}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a run id: {str(value)[:100]}")
    return value
