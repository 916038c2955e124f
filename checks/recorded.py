"""Launches as the engine's state or a ledger records them: by these one is found whose labels somebody removed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from manifests.labels import LAUNCH, RUN, STACK
from workloads.records import Ledger

_FOUND_BY = (STACK, RUN, LAUNCH)
"""The labels without which a launch is not listed."""
_REMEMBERED = "trainstack.dev/"
"""What our labels begin with."""


@dataclass(frozen=True, kw_only=True)
class RecordedLaunch:
    """A launch that the engine's state, or a ledger, records. Its object may be gone."""

    api_version: str
    kind: str
    namespace: str
    name: str
    """Empty in a ledger alone where the API server chose it."""
    uid: str
    """Empty where it is not known: a ledger is written without it."""
    labels: Mapping[str, str]
    """Those that it was made with, as far as they are known."""

    @property
    def manifest(self) -> dict[str, Any]:
        """What it takes to find it."""
        metadata = {"namespace": self.namespace, "name": self.name}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}

    def is_same(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a live object of this name is this launch, and no other one of a fixed name."""
        if self.uid:
            return bool(metadata["uid"] == self.uid)
        own = self.labels.get(LAUNCH)
        return own == self.name or (metadata.get("labels") or {}).get(LAUNCH) == own

    def lost(self, body: Mapping[str, Any]) -> Mapping[str, str]:
        """The labels that the live object should have to be found, and has not."""
        live = body["metadata"].get("labels") or {}
        return {key: self.labels[key] for key in _FOUND_BY if key in self.labels and live.get(key) != self.labels[key]}

    def with_labels(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The live object with our labels as they were recorded."""
        recorded = {key: value for key, value in self.labels.items() if key.startswith(_REMEMBERED)}
        return {
            **body,
            "metadata": {**body["metadata"], "labels": {**(body["metadata"].get("labels") or {}), **recorded}},
        }


def merged(state: Iterable[RecordedLaunch], ledgers: Iterable[Ledger]) -> list[RecordedLaunch]:
    """The launches that the engine's state or a ledger records, once each.

    The state has the uid; the ledger has the labels that the launch was made with, where a refresh of the state has
    read what is left of them. A ledger alone does not know a name that the API server chose.
    """
    found = {_place(launch): launch for launch in map(_of_ledger, ledgers) if launch.name}
    for launch in state:
        made_with = found[_place(launch)].labels if _place(launch) in found else {}
        found[_place(launch)] = replace(launch, labels={**launch.labels, **made_with})
    return list(found.values())


def _place(launch: RecordedLaunch) -> tuple[str, str, str]:
    return launch.kind, launch.namespace, launch.name


def _of_ledger(ledger: Ledger) -> RecordedLaunch:
    metadata = ledger.launch["metadata"]
    return RecordedLaunch(
        api_version=ledger.launch["apiVersion"],
        kind=ledger.launch["kind"],
        namespace=ledger.namespace,
        name=metadata.get("name", ""),
        uid="",
        labels=metadata.get("labels") or {},
    )
