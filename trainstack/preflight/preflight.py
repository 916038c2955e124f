"""Findings about an environment from its files alone, without engine, cluster or network."""

from collections.abc import Collection, Mapping
from pathlib import Path

from trainstack.declared.declared import Declared
from trainstack.preflight import silences
from trainstack.preflight.examples import yaml_at
from trainstack.preflight.finding import Checked, Finding
from trainstack.preflight.rule import Check, Rule, Violation, checks
from trainstack.preflight.rule_context import RuleContext
from trainstack.preflight.rules import (
    admission,
    credentials,
    dependencies,
    files,
    images,
    likely_mistakes,
    loaders,
    multikueue,
    names,
    namespaces,
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
    volumes,
)
from trainstack.preflight.runner import run_rules
from trainstack.settings.errors import Place, SettingsError, nearest
from trainstack.settings.loading.load import Loaded
from trainstack.settings.model import Settings

RULES: dict[str, Check[RuleContext]] = checks(
    *(references, dependencies, queues, multikueue, pools, admission, operators, volumes, names),
    *(
        files,
        images,
        namespaces,
        pod_patches,
        tenant,
        sweeps,
        loaders,
        resources,
        pod_resources,
        programs,
        sizes,
        credentials,
        likely_mistakes,
    ),
)
"""Checks over files by rule id, in the order of docs/checks.md."""
_OF_NAMES: dict[str, Check[RuleContext]] = checks(references, dependencies)

SETTINGS = Rule(
    id="settings",
    summary="A file of the environment does not load, so no rule was applied.",
    details="A key is unknown or missing, or a value is invalid.",
    change=yaml_at("storage.volumes", "- {name: training, size: 2 GB}"),
    remedy="Correct the value. [Environments](environments.md) lists the keys.",
    silenceable=False,
)


def unloaded(error: SettingsError) -> Checked:
    """Return one finding per fault of an environment whose files do not load; no rule is applied."""
    faults = [
        Finding.of(SETTINGS, Violation(fault.path, fault.message, fault.remedy), fault.where)
        for fault in error.findings
    ]
    return Checked(faults, [])


def faults_of_names(loaded: Loaded, root: Path, priority_classes: Collection[str] | None = None) -> list[Finding]:
    """Return the unsilenced errors of the rules in `references` and `dependencies`, without applying other rules.

    `priority_classes`: those of the cluster, or None if they were not read or the user may not read them.
    """
    settings = loaded.settings
    context = RuleContext(Declared(settings), root)
    found = [Finding.of(check.rule, violation) for check in _OF_NAMES.values() for violation in check.find(context)]
    for path, run in context.runs():
        if run.priority is not None and priority_classes is not None and run.priority not in priority_classes:
            message = f"the cluster does not have WorkloadPriorityClass {run.priority!r}"
            remedy = nearest(run.priority, priority_classes)
            found.append(Finding.of(references.priority_unknown.rule, Violation(f"{path}.priority", message, remedy)))
    settled = silences.settled(found, settings.checks.silenced, (), loaded.places)
    return [finding for finding in settled if finding.stops]


def check(settings: Settings, root: Path, places: Mapping[str, Place] | None = None) -> list[Finding]:
    """Return the findings of `examine`, without verdicts."""
    return examine(Declared(settings), root, places).findings


def examine(declared: Declared, root: Path, places: Mapping[str, Place] | None = None) -> Checked:
    """Apply all rules over files, and compute a verdict for each queued run.

    `root`: the project's folder, to which the paths in the settings are relative. `places`: the file and line of each
    value, from `settings.loading.load.load_with_places`; without it the findings have no place.
    """
    context, silenced = RuleContext(declared, root), declared.settings.checks.silenced
    found, verdicts = run_rules(RULES, context)
    if not silenced:
        return Checked(silences.settled(found, (), (), places or {}), verdicts)
    from trainstack.preflight import against_cluster  # noqa: PLC0415 (each preview would load the rules over clusters)

    every = {id_: check.rule for id_, check in (against_cluster.RULES | RULES).items()}
    found += silences.misplaced(silenced, every)
    # Only `check --cluster` can decide whether a silence of a rule over clusters is unused.
    files_alone = [check.rule for id_, check in RULES.items() if id_ not in against_cluster.RULES]
    return Checked(silences.settled(found, silenced, files_alone, places or {}), verdicts)
