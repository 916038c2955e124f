"""The ConfigMaps of a launch: the wrapper that its pods run, and the ledger that first claims and then records it."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from trainstack.objects.labels import CLAIM, KIND, LAUNCH, LEDGER, RUN, SWEEP, WORKLOAD, WRAPPER, Manifest, metadata
from trainstack.objects.launch_kinds import STANDARD_LAUNCH_KINDS
from trainstack.objects.size_limits import MAX_DATA_BYTES
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import canonical
from trainstack.runs.manifests.launched_pods import mounted_config_map
from trainstack.runs.manifests.pod_template import WRAPPER_FILE, WRAPPER_VOLUME
from trainstack.runs.names import ledger_name, wrapper_name

LEDGER_OF_RUN = "run"
"""The value of the label LEDGER on a run's ledger."""
LEDGER_OF_BATCH = "batch"
"""The value of the label LEDGER on the ledger of an Indexed Job of many trials."""
LAUNCHED = "launched"
"""The key that marks a claim as launched; its value is always `true`."""
_MAX_PROBLEM_CHARACTERS = 200
"""The maximum length of the reason why a ledger cannot be read, which contains values from the ledger."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The record of a launch, as stored in a ConfigMap."""

    run_id: str
    workload: str
    namespace: str
    attempt: int
    launch_name: str
    launch: Mapping[str, Any]
    """The manifest of the launch as declared."""
    companions: tuple[Mapping[str, Any], ...] = ()
    """The objects that the launch refers to, as declared with it."""
    sweep: str = ""
    """The sweep that the launch belongs to; empty for a run outside sweeps."""
    trials: tuple[str, ...] = ()
    """The run ids of an Indexed Job's trials by completion index; empty for a run. An entry is empty if the trial no
    longer belongs to this launch, because its set was removed or because it failed and was launched again."""

    @property
    def trained_ids(self) -> frozenset[str]:
        """The ids that this launch trains: that of its run or batch, and those of a batch's trials."""
        return frozenset((self.run_id, *filter(None, self.trials)))

    @property
    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """The companions and the launch, in the order of their creation."""
        return (*self.companions, self.launch)


def wrapper_config_map(namespace: str, stack: str, source: str) -> Manifest:
    """Return the ConfigMap with the wrapper's source, named after its content so that it never changes under a pod."""
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
    """Return the sources in live wrapper ConfigMaps by the name derived from the source.

    The derived name differs from the ConfigMap's name if somebody edited the source.
    """
    sources = ((config_map.get("data") or {}).get(WRAPPER_FILE, "") for config_map in config_maps)
    return {wrapper_reference(source): source for source in sources if source}


def mounted_wrapper(objects: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the name of the wrapper ConfigMap that the pods of a launch mount; None if they are not managed.

    Raises WorkloadError for an edited ledger.
    """
    return mounted_config_map(objects, WRAPPER_VOLUME)


@dataclass(frozen=True)
class Claim:
    """A ledger whose launch was claimed but not confirmed: an `up` was interrupted, or its request got no answer.

    Both times are from the API server, because the clocks of the machines that claim and read may differ.
    """

    ledger: Ledger
    since: datetime | None
    """The time of the claim; None if the managed fields do not contain it, because they were edited."""
    read: datetime | None
    """The time at which the claim was read; None if the response had no time."""

    @property
    def age(self) -> timedelta | None:
        """The time from claim to read; None if unknown, or if the API server's clock was set back."""
        if self.since is None or self.read is None or self.read < self.since:
            return None
        return self.read - self.since


def ledger_config_map(stack: str, ledger: Ledger) -> Manifest:
    """Return the ConfigMap that records a launch. Raises WorkloadError if it exceeds the maximum size of a ConfigMap.

    The ledger is applied with force because it replaces an existing claim. Other field managers are checked beforehand.
    """
    ledger_type = LEDGER_OF_BATCH if ledger.trials else LEDGER_OF_RUN
    labels = {LEDGER: ledger_type, RUN: ledger.run_id, WORKLOAD: ledger.workload}
    if ledger.sweep:
        labels[SWEEP] = ledger.sweep
    if ledger.launch["kind"] not in STANDARD_LAUNCH_KINDS:
        labels[KIND] = ledger.launch["kind"]
    data = _ledger_data(ledger)
    if (size := sum(map(len, data.values()))) > MAX_DATA_BYTES:
        raise WorkloadError(
            f"workload {ledger.workload}: the ledger of {ledger.run_id} needs {size} bytes, but a ConfigMap holds "
            f"at most {MAX_DATA_BYTES}; a run that cannot be recorded is not launched. Shorten its arguments, "
            "variables or annotations, or move long values into files in the image or on a volume"
        )
    name = ledger_name(ledger.run_id)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, stack, namespace=ledger.namespace, labels=labels, adopt=True),
        "data": data,
    }


def ledger_bytes(ledger: Ledger) -> int:
    """Return the size of the data of a ledger's ConfigMap."""
    return sum(map(len, _ledger_data(ledger).values()))


def _ledger_data(ledger: Ledger) -> dict[str, str]:
    # `canonical` emits ASCII only, so characters equal bytes.
    return {
        "run": ledger.run_id,
        "workload": ledger.workload,
        "attempt": str(ledger.attempt),
        "launchName": ledger.launch_name,
        "launch": canonical(ledger.launch),
        **({"companions": canonical(ledger.companions)} if ledger.companions else {}),
        **({"trials": canonical(ledger.trials)} if ledger.trials else {}),
        LAUNCHED: "true",
    }


def claim_config_map(ledger: Mapping[str, Any], claim_id: str) -> Manifest:
    """Return the claim that precedes a launch: its future ledger with a claim id, but not marked as launched.

    Every claim has a new id, because the API server updates the time in the managed fields only if a write changes
    the object.
    """
    annotations = {**ledger["metadata"].get("annotations", {}), CLAIM: claim_id}
    return {
        **ledger,
        "metadata": {**ledger["metadata"], "annotations": annotations},
        "data": {key: value for key, value in ledger["data"].items() if key != LAUNCHED},
    }


def is_claim(config_map: Mapping[str, Any]) -> bool:
    """Return whether the launch of a ledger's ConfigMap was claimed but not confirmed."""
    metadata, data = config_map["metadata"], config_map.get("data") or {}
    if CLAIM not in (metadata.get("annotations") or {}) or LAUNCHED in data:
        return False
    # A claim is created, not applied. If the engine has applied the ledger, the launch was confirmed, and somebody has
    # removed the confirmation.
    return not any(
        entry.get("operation") == "Apply" and "f:launchName" in entry.get("fieldsV1", {}).get("f:data", {})
        for entry in metadata.get("managedFields") or ()
    )


def read_claim(config_map: Mapping[str, Any], read: datetime | None) -> Claim:
    """Return the claim in a ledger's ConfigMap that the API server returned at `read`.

    Raises WorkloadError if the ConfigMap is not a valid ledger.
    """
    return Claim(read_ledger(config_map), _claimed_at(config_map["metadata"]), read)


def _claimed_at(metadata: Mapping[str, Any]) -> datetime | None:
    """Return when the API server stored the claim; None unless exactly one entry of the managed fields has it."""
    times = []
    for entry in metadata.get("managedFields") or ():
        annotations = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
        times += [entry.get("time")] if f"f:{CLAIM}" in annotations else []
    return datetime.fromisoformat(times[0]) if len(times) == 1 and times[0] else None


def read_ledger(config_map: Mapping[str, Any]) -> Ledger:
    """Return the ledger that a ConfigMap of `ledger_config_map` stores. Raises WorkloadError if it is not valid."""
    metadata, data = config_map["metadata"], config_map.get("data") or {}
    try:
        ledger = Ledger(
            run_id=data["run"],
            workload=data["workload"],
            namespace=metadata["namespace"],
            attempt=int(data["attempt"]),
            launch_name=data["launchName"],
            launch=json.loads(data["launch"]),
            companions=tuple(_parse_list(data.get("companions", "[]"))),
            sweep=metadata["labels"].get(SWEEP, ""),
            trials=tuple(_parse_list(data.get("trials", "[]"))),
        )
        # A wrong type would otherwise fail much later, in the code that reads the manifest.
        _check_shapes(ledger)
        _check_names(ledger, metadata, data)
    # Anybody may have edited the ConfigMap, so any of these can result from its content.
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        StopIteration,
        TypeError,
        ValueError,
    ) as error:
        problem = f"{type(error).__name__}: {error}"[:_MAX_PROBLEM_CHARACTERS]
        raise WorkloadError(
            f"ConfigMap {metadata['namespace']}/{metadata['name']} records a launch, but cannot be read ({problem}): "
            "it was edited. Restore it; without it the run counts as never launched and is trained again"
        ) from error
    return ledger


def _check_shapes(ledger: Ledger) -> None:
    """Raise the error that a malformed manifest, or a value in it, would cause in later readers."""
    for manifest in ledger.objects:
        metadata = manifest["metadata"]
        texts = [manifest["apiVersion"], manifest["kind"], *(metadata.get("labels") or {}).values()]
        texts += [*(metadata.get("annotations") or {}).values()]
        texts += [metadata[key] for key in ("name", "generateName", "namespace") if key in metadata]
        _check_strings(texts)
    _check_strings(ledger.trials)
    ttl_seconds(ledger.launch)
    if ledger.trials:
        int(ledger.launch["spec"]["parallelism"])


def _check_names(ledger: Ledger, metadata: Mapping[str, Any], data: Mapping[str, str]) -> None:
    """Raise ValueError or KeyError if names of runs or launches are missing or inconsistent, or values are wrong."""
    launch = ledger.launch["metadata"]
    launch_name = launch["labels"][LAUNCH]
    for place, value, expected in (
        ("metadata.name", metadata["name"], ledger_name(ledger.run_id)),
        (f"metadata.labels[{RUN}]", metadata["labels"].get(RUN, ledger.run_id), ledger.run_id),
        # The ledger of a batch may store the manifest of another batch, namely that of the remaining trials.
        (f"launch.metadata.labels[{LAUNCH}]", ledger.launch_name if ledger.trials else launch_name, ledger.launch_name),
        ("launch.metadata.namespace", launch["namespace"], ledger.namespace),
        (LAUNCHED, data.get(LAUNCHED, "true"), "true"),
        ("attempt", max(ledger.attempt, 1), ledger.attempt),
    ):
        if value != expected:
            raise ValueError(f"{place} is {value!r}, where {expected!r} is expected")
    if not {"name", "generateName"} & launch.keys():
        raise KeyError("launch.metadata.name")


def ttl_seconds(launch: Mapping[str, Any]) -> int | None:
    """Return the seconds after its end at which the cluster removes a launch; None if it never does.

    Raises TypeError if the field was edited to another type.
    """
    spec = launch.get("spec", {})
    seconds = spec.get("ttlSecondsAfterFinished", (spec.get("runPolicy") or {}).get("ttlSecondsAfterFinished"))
    if seconds is None or (isinstance(seconds, int) and not isinstance(seconds, bool)):
        return seconds
    raise TypeError(f"ttlSecondsAfterFinished is {seconds!r}, not a number of seconds")


def _parse_list(text: str) -> list[Any]:
    value = json.loads(text)
    if not isinstance(value, list):
        raise TypeError(f"not a list: {text}")
    return value


def _check_strings(values: Iterable[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"not a text: {value!r}")
