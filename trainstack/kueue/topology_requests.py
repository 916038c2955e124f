"""Topology requests of pod sets, as Kueue reads them from the annotations of pods."""

from collections.abc import Mapping
from typing import Any

Body = Mapping[str, Any]
_PREFIX = "kueue.x-k8s.io/podset-"
_LEVEL_KEYS = ("required", "preferred", "podSetSliceRequiredTopology")
_TRUE = ("1", "t", "T", "TRUE", "true", "True")


def topology_request(template: Body) -> dict[str, Any]:
    """Return the topologyRequest of a pod set with a pod template; empty if the pods do not request a topology.

    Source: Build in Kueue's pkg/controller/jobframework/tas.go.
    """
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    options = {key.removeprefix(_PREFIX): text for key, text in annotations.items() if key.startswith(_PREFIX)}
    request: dict[str, Any] = {}
    if "required-topology" in options:
        request["required"] = options["required-topology"]
    elif "preferred-topology" in options:
        request["preferred"] = options["preferred-topology"]
    elif "unconstrained-topology" in options:
        # As strconv.ParseBool.
        request["unconstrained"] = options["unconstrained-topology"] in _TRUE
    if {"slice-required-topology", "slice-size"} <= options.keys() and options["slice-size"].isdecimal():
        request["podSetSliceRequiredTopology"] = options["slice-required-topology"]
        request["podSetSliceSize"] = int(options["slice-size"])
    if "group-name" in options and request.keys() & {"required", "preferred"}:
        request["podSetGroupName"] = options["group-name"]
    return request


def requested_levels(request: Body) -> tuple[str, ...]:
    """Return the levels that a topologyRequest names. Source: HasLevel in Kueue's tas_flavor_snapshot.go."""
    return tuple(dict.fromkeys(request[key] for key in _LEVEL_KEYS if request.get(key)))
