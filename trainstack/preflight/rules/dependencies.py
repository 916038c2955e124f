"""Rules about runs that depend on other runs."""

from collections import defaultdict
from collections.abc import Iterator

from trainstack.preflight.examples import hello
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.preflight.rules.references import unknown_name_remedy


@Rule(
    id="dependency-unknown",
    summary="A run depends on itself, or on a run that its namespace does not have; it would never be launched.",
    change=hello("dependsOn: [stgae]"),
    remedy="Name another run of the same namespace.",
)
def dependency_unknown(context: RuleContext) -> Iterator[Violation]:
    names: dict[str, set[str]] = defaultdict(set)
    for run in context.settings.workloads.runs:
        names[run.namespace].add(run.name)
    for path, run in context.runs():
        other_names = names[run.namespace] - {run.name}
        for index, name in enumerate(run.depends_on):
            if name not in other_names:
                message = f"namespace {run.namespace} has no other run {name!r}"
                yield Violation(
                    f"{path}.dependsOn[{index}]", message, unknown_name_remedy(name, other_names, "workloads.runs")
                )


@Rule(
    id="dependency-cycle",
    summary="Runs depend on each other in a cycle, so none would ever be launched.",
    example="`digits` has `dependsOn: [evaluate]`, and `evaluate` has `dependsOn: [digits]`.",
    remedy="Remove one dependency.",
)
def dependency_cycle(context: RuleContext) -> Iterator[Violation]:
    dependencies = {(run.namespace, run.name): run.depends_on for _, run in context.runs()}
    reported: set[tuple[str, str]] = set()
    for path, run in context.runs():
        # The list grows during the loop, until it has all direct and indirect dependencies.
        reached = list(run.depends_on)
        for name in reached:
            reached += [
                dependency for dependency in dependencies.get((run.namespace, name), ()) if dependency not in reached
            ]
        is_reported = any((run.namespace, name) in reported for name in reached)
        if run.name in reached and run.name not in run.depends_on and not is_reported:
            reported.add((run.namespace, run.name))
            message = (
                f"run {run.name} depends on itself through "
                f"{', '.join(dependency for dependency in reached if dependency != run.name)}"
            )
            yield Violation(f"{path}.dependsOn", message)


@Rule(
    id="dependency-endless",
    summary="A run depends on a Pod that always restarts, so the run would never be launched.",
    details="`restartPolicy: Always` is the default of an unmanaged Pod.",
    example="`dependsOn: [stage]`, where `stage` has `kind: Pod` and `managed: false`.",
    remedy="Set the Pod's `restartPolicy` to `Never` or `OnFailure`, or remove the dependency.",
)
def dependency_endless(context: RuleContext) -> Iterator[Violation]:
    endless = {(run.namespace, run.name) for run in context.settings.workloads.runs if run.restarts_always}
    for path, run in context.runs():
        for index, name in enumerate(run.depends_on):
            if (run.namespace, name) in endless:
                message = f"Pod {name} never succeeds: its restartPolicy is Always"
                yield Violation(f"{path}.dependsOn[{index}]", message)
