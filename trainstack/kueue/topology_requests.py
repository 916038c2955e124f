"""Topology requests of pod sets, as Kueue reads them from the annotations of pods."""

from collections.abc import Mapping
from typing import Any

Body = Mapping[str, Any]
_PREFIX = "kueue.x-k8s.io/podset-"
_LEVELS = ("required", "preferred", "podSetSliceRequiredTopology")
_TRUE = ("1", "t", "T", "TRUE", "true", "True")


def topology_request(template: Body) -> dict[str, Any]:
    """Return the topologyRequest of a pod set with a pod template; empty if the pods do not request a topology.

    Source: Build in Kueue's pkg/controller/jobframework/tas.go.
    """
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    found = {key.removeprefix(_PREFIX): text for key, text in annotations.items() if key.startswith(_PREFIX)}
    result: dict[str, Any] = {}
    if "required-topology" in found:
        result["required"] = found["required-topology"]
    elif "preferred-topology" in found:
        result["preferred"] = found["preferred-topology"]
    elif "unconstrained-topology" in found:
        # As strconv.ParseBool.
        result["unconstrained"] = found["unconstrained-topology"] in _TRUE
    if {"slice-required-topology", "slice-size"} <= found.keys() and found["slice-size"].isdecimal():
        result["podSetSliceRequiredTopology"] = found["slice-required-topology"]
        result["podSetSliceSize"] = int(found["slice-size"])
    if "group-name" in found and result.keys() & {"required", "preferred"}:
        result["podSetGroupName"] = found["group-name"]
    return result


def requested_levels(request: Body) -> tuple[str, ...]:
    """Return the levels that a topologyRequest names. Source: HasLevel in Kueue's tas_flavor_snapshot.go."""
    return tuple(dict.fromkeys(request[key] for key in _LEVELS if request.get(key)))
