"""The ConfigMaps beside a launch: the wrapper that its pods run, and the ledger that says that it was launched."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manifests.labels import LEDGER, RUN, WORKLOAD, Manifest, metadata
from workloads.errors import WorkloadError
from workloads.identity import canonical
from workloads.names import ledger_name, wrapper_name
from workloads.pod_template import WRAPPER_FILE

LEDGER_OF_RUN = "run"
"""The value of the label LEDGER on a run's ledger."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What is remembered of a run that was launched."""

    run_id: str
    workload: str
    namespace: str
    attempt: int
    launch_name: str
    launch: Mapping[str, Any]
    """The launch's manifest, as it was declared."""


def wrapper_config_map(namespace: str, stack: str, source: str) -> Manifest:
    """The wrapper's source, named after its content: pods never see it change."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(wrapper_reference(source), stack, namespace=namespace),
        "immutable": True,
        "data": {WRAPPER_FILE: source},
    }


def wrapper_reference(source: str) -> str:
    """The name of the ConfigMap that holds this wrapper."""
    return wrapper_name(hashlib.sha256(source.encode()).hexdigest())


def ledger_config_map(stack: str, ledger: Ledger) -> Manifest:
    """A run's ledger as the cluster keeps it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            ledger_name(ledger.run_id),
            stack,
            namespace=ledger.namespace,
            labels={LEDGER: LEDGER_OF_RUN, RUN: ledger.run_id, WORKLOAD: ledger.workload},
        ),
        "data": {
            "run": ledger.run_id,
            "workload": ledger.workload,
            "attempt": str(ledger.attempt),
            "launchName": ledger.launch_name,
            "launch": canonical(ledger.launch),
        },
    }


def read_ledger(config_map: Mapping[str, Any]) -> Ledger:
    """The inverse of `ledger_config_map`.

    Raises WorkloadError for an object that is no ledger of ours any more.
    """
    name, namespace = config_map["metadata"]["name"], config_map["metadata"]["namespace"]
    data = config_map.get("data") or {}
    try:
        return Ledger(
            run_id=data["run"],
            workload=data["workload"],
            namespace=namespace,
            attempt=int(data["attempt"]),
            launch_name=data["launchName"],
            launch=json.loads(data["launch"]),
        )
    except (KeyError, ValueError) as error:
        raise WorkloadError(
            f"ConfigMap {namespace}/{name} remembers a launch, but cannot be read ({error!r}): it was edited. Restore "
            "it; without it the run counts as never launched and is trained again"
        ) from error
