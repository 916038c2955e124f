"""Findings about an environment from its files alone, without engine, cluster or network."""

from collections.abc import Collection, Mapping
from pathlib import Path

from trainstack.preflight import silences
from trainstack.preflight.examples import yaml_at
from trainstack.preflight.finding import CheckResult, Finding
from trainstack.preflight.rule import Check, Rule, Violation, collect_checks
from trainstack.preflight.rule_context import RuleContext
from trainstack.preflight.rules import (
    admission,
    credentials,
    dependencies,
    files,
    images,
    likely_mistakes,
    loaders,
    manifests,
    multikueue,
    names,
    namespaces,
    objects,
    operators,
    pod_patches,
    pod_resources,
    pools,
    programs,
    queues,
    references,
    resources,
    sizes,
    sweeps,
    tenant,
    trainjobs,
    volumes,
)
from trainstack.preflight.runner import run_rules
from trainstack.settings.errors import Place, SettingsError, suggest_name
from trainstack.settings.loading.load import LoadedEnvironment
from trainstack.settings.model import Settings
from trainstack.stack_objects.stack_objects import StackObjects

RULES: dict[str, Check[RuleContext]] = collect_checks(
    *(references, dependencies, queues, multikueue, pools, admission, operators, trainjobs, volumes, names),
    *(
        files,
        images,
        namespaces,
        manifests,
        pod_patches,
        tenant,
        sweeps,
        loaders,
        resources,
        pod_resources,
        programs,
        objects,
        sizes,
        credentials,
        likely_mistakes,
    ),
)
"""Checks over files by rule id, in the order of docs/checks.md."""
_NAME_CHECKS: dict[str, Check[RuleContext]] = collect_checks(references, dependencies)

SETTINGS = Rule(
    id="settings",
    summary="A file of the environment does not load, so no rule was applied.",
    details="A key is unknown or missing, or a value is invalid.",
    change=yaml_at("storage.volumes", "- {name: training, size: 2 GB}"),
    remedy="Correct the value. [Environments](environments.md) lists the keys.",
    silenceable=False,
)


def load_error_result(error: SettingsError) -> CheckResult:
    """Return one finding per fault of an environment whose files do not load; no rule is applied."""
    findings = [
        Finding.from_violation(SETTINGS, Violation(fault.path, fault.message, fault.remedy), fault.where)
        for fault in error.findings
    ]
    return CheckResult(findings, [])


def find_name_errors(
    loaded: LoadedEnvironment, root: Path, priority_classes: Collection[str] | None = None
) -> list[Finding]:
    """Return the unsilenced errors of the rules in `references` and `dependencies`, without applying other rules.

    `priority_classes`: those of the cluster, or None if they were not read or the user may not read them.
    """
    settings = loaded.settings
    context = RuleContext(StackObjects(settings), root)
    findings = [
        Finding.from_violation(check.rule, violation)
        for check in _NAME_CHECKS.values()
        for violation in check.find(context)
    ]
    for path, run in context.runs():
        if run.priority is not None and priority_classes is not None and run.priority not in priority_classes:
            message = f"the cluster does not have WorkloadPriorityClass {run.priority!r}"
            remedy = suggest_name(run.priority, priority_classes)
            findings.append(
                Finding.from_violation(references.priority_unknown.rule, Violation(f"{path}.priority", message, remedy))
            )
    final_findings = silences.finalize_findings(findings, settings.checks.silenced, (), loaded.places)
    return [finding for finding in final_findings if finding.is_blocking]


def check(settings: Settings, root: Path, places: Mapping[str, Place] | None = None) -> list[Finding]:
    """Return the findings of `examine`, without verdicts."""
    return examine(StackObjects(settings), root, places).findings


def examine(stack_objects: StackObjects, root: Path, places: Mapping[str, Place] | None = None) -> CheckResult:
    """Apply all rules over files, and compute a verdict for each queued run.

    `root`: the project's folder, to which the paths in the settings are relative. `places`: the file and line of each
    value, from `settings.loading.load.load_with_places`; without it the findings have no place.
    """
    context, declared_silences = RuleContext(stack_objects, root), stack_objects.settings.checks.silenced
    findings, verdicts = run_rules(RULES, context)
    if not declared_silences:
        return CheckResult(silences.finalize_findings(findings, (), (), places or {}), verdicts)
    from trainstack.preflight import cluster_checks  # noqa: PLC0415 (each preview would load the rules over clusters)

    all_rules = {id_: check.rule for id_, check in (cluster_checks.RULES | RULES).items()}
    findings += silences.find_invalid_silences(declared_silences, all_rules)
    # Only `check --cluster` can decide whether a silence of a rule over clusters is unused.
    file_only_rules = [check.rule for id_, check in RULES.items() if id_ not in cluster_checks.RULES]
    return CheckResult(silences.finalize_findings(findings, declared_silences, file_only_rules, places or {}), verdicts)
