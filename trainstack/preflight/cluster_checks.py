"""Findings about an environment and its cluster, from one read of that cluster."""

from collections.abc import Mapping, Sequence

from trainstack.preflight import silences
from trainstack.preflight.finding import CheckResult, Finding
from trainstack.preflight.live_context import LiveContext
from trainstack.preflight.live_rules import (
    image_registries,
    limit_ranges,
    nodes,
    platform,
    queueing,
    resource_quotas,
    runtime_classes,
    secrets,
    storage,
    training_runtimes,
    workers,
)
from trainstack.preflight.rule import Check, Rule, collect_checks
from trainstack.preflight.rules import references
from trainstack.preflight.rules.references import namespace_unknown
from trainstack.preflight.runner import run_rules
from trainstack.settings.errors import Place

RULES: dict[str, Check[LiveContext]] = collect_checks(
    *(
        platform,
        storage,
        queueing,
        limit_ranges,
        resource_quotas,
        runtime_classes,
        training_runtimes,
        nodes,
        image_registries,
    ),
    *(secrets, workers),
)
"""Checks over a cluster by rule id, in the order of docs/checks.md."""
_REFERENCE_CHECKS = collect_checks(references)

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
    context: LiveContext, places: Mapping[str, Place] | None = None, file_findings: Sequence[Finding] = ()
) -> CheckResult:
    """Apply the rules over clusters, and compute a verdict for each queued run from the cluster's present state.

    `places`: the argument of `preflight.file_checks.examine`. `file_findings`: its findings; a name that they report as
    unknown is not reported again if it is also missing on the cluster.
    """
    findings, verdicts = run_rules(RULES, context)
    found_in_files = {
        (finding.id, finding.path)
        for finding in file_findings
        if finding.is_blocking and finding.id in _REFERENCE_CHECKS
    }
    findings = [finding for finding in findings if (finding.id, finding.path) not in found_in_files]
    # `namespace-unknown` cannot be silenced on a cluster, but a silence of it may match its finding in the files.
    rules = [*(check.rule for check in RULES.values()), namespace_unknown.rule]
    declared_silences = context.settings.checks.silenced
    return CheckResult(
        silences.finalize_findings(findings, declared_silences, rules, places or {}, file_findings), verdicts
    )
