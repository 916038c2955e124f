"""Runs that wait for other runs."""

from collections import defaultdict
from collections.abc import Iterator

from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene
from trainstack.preflight.rules.references import or_declare


@Rule(
    id="dependency-unknown",
    severity="error",
    summary="A run depends on itself, or on a run that its namespace does not have.",
    details="It would never be launched.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, dependsOn: [stgae]}
    """,
    remedy="Name another run of the same namespace.",
)
def dependency_unknown(scene: Scene) -> Iterator[Violation]:
    names: dict[str, set[str]] = defaultdict(set)
    for one in scene.settings.workloads.runs:
        names[one.namespace].add(one.name)
    for path, run in scene.runs():
        for index, word in enumerate(run.depends_on):
            known = names[run.namespace] - {run.name}
            if word not in known:
                message = f"no other run of namespace {run.namespace} is {word}"
                remedy = or_declare(word, known, "under workloads.runs")
                yield Violation(f"{path}.dependsOn[{index}]", message, remedy)


@Rule(
    id="dependency-cycle",
    severity="error",
    summary="Runs depend on each other in a cycle.",
    details="None of them would ever be launched.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, dependsOn: [evaluate]}
            - {name: evaluate, from: digits, namespace: research, queue: research, dependsOn: [digits]}
    """,
    remedy="Remove one of the dependencies.",
)
def dependency_cycle(scene: Scene) -> Iterator[Violation]:
    others = {(run.namespace, run.name): run.depends_on for _, run in scene.runs()}
    told: set[tuple[str, str]] = set()
    for path, run in scene.runs():
        way = list(run.depends_on)
        for name in way:
            way += [each for each in others.get((run.namespace, name), ()) if each not in way]
        told_already = any((run.namespace, name) in told for name in way)
        if run.name in way and run.name not in run.depends_on and not told_already:
            told.add((run.namespace, run.name))
            message = f"depends on itself, by way of {', '.join(name for name in way if name != run.name)}"
            yield Violation(f"{path}.dependsOn", message, "take one of them out")


@Rule(
    id="dependency-endless",
    severity="error",
    summary="A run depends on a Pod with `restartPolicy: Always`.",
    details=(
        "The kubelet restarts such a Pod whenever it ends, so it never succeeds and the run would never be "
        "launched. An unmanaged Pod without a `restartPolicy` has this policy: it is the default of Kubernetes."
    ),
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, dependsOn: [stage]}
            - name: stage
              namespace: research
              kind: Pod
              managed: false
              image: {name: "busybox:1.37"}
              restartPolicy: Always
    """,
    remedy="Set `restartPolicy` of the Pod to `Never` or `OnFailure`, or remove the dependency.",
)
def dependency_endless(scene: Scene) -> Iterator[Violation]:
    endless = {(one.namespace, one.name) for one in scene.settings.workloads.runs if one.restarts_always}
    for path, run in scene.runs():
        for index, word in enumerate(run.depends_on):
            if (run.namespace, word) in endless:
                message = f"Pod {word} never succeeds: it is restarted whenever it has ended (restartPolicy Always)"
                remedy = f"set restartPolicy to Never or OnFailure on {word}, or take it out"
                yield Violation(f"{path}.dependsOn[{index}]", message, remedy)


RULES: tuple[Check[Scene], ...] = (dependency_unknown, dependency_cycle, dependency_endless)
