"""Findings about an environment and its cluster, from one read of that cluster."""

from collections.abc import Mapping, Sequence

from trainstack.preflight import silences
from trainstack.preflight.finding import Checked, Finding
from trainstack.preflight.live_context import LiveContext
from trainstack.preflight.live_rules import (
    limit_ranges,
    nodes,
    platform,
    queueing,
    registry,
    runtime_classes,
    secrets,
    storage,
    workers,
)
from trainstack.preflight.rule import Check, Rule, checks
from trainstack.preflight.rules import references
from trainstack.preflight.rules.references import namespace_unknown
from trainstack.preflight.runner import run_rules
from trainstack.settings.errors import Place

RULES: dict[str, Check[LiveContext]] = checks(
    platform, storage, queueing, limit_ranges, runtime_classes, nodes, registry, secrets, workers
)
"""Checks over a cluster by rule id, in the order of docs/checks.md."""
_OF_NAMES = checks(references)

MANIFESTS_UNBUILT = Rule(
    id="manifests-unbuilt",
    may_be=("unknown",),
    summary="The manifests cannot be built from the files, so no launch is sent as a dry run.",
    details="`unknown` if only an operator's release is missing.",
    example="A run with a megabyte of arguments.",
    remedy="Correct what the message describes.",
)
CLUSTER_UNREACHABLE = Rule(
    id="cluster-unreachable",
    summary="The cluster could not be read, so only the rules over files were applied.",
    example="`cluster: {context: lba}` where the kubeconfig has `lab`.",
    remedy="Correct `cluster.context`, `KUBECONFIG` or the credentials, or start the cluster.",
    silenceable=False,
)


def examine(
    context: LiveContext, places: Mapping[str, Place] | None = None, in_files: Sequence[Finding] = ()
) -> Checked:
    """Apply the rules over clusters, and compute a verdict for each queued run from the cluster's present state.

    `places`: the argument of `preflight.preflight.examine`. `file_findings`: its findings; a name that they report as
    unknown is not reported again if it is also missing on the cluster.
    """
    found, verdicts = run_rules(RULES, context)
    known = {(finding.id, finding.path) for finding in in_files if finding.stops and finding.id in _OF_NAMES}
    found = [finding for finding in found if (finding.id, finding.path) not in known]
    # `namespace-unknown` cannot be silenced on a cluster, but a silence of it may match its finding in the files.
    rules = [*(check.rule for check in RULES.values()), namespace_unknown.rule]
    silenced = context.settings.checks.silenced
    return Checked(silences.settled(found, silenced, rules, places or {}, in_files), verdicts)
