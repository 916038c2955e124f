"""Queues, priorities, and the nodes behind them."""

from collections.abc import Iterator, Mapping

from checks.finding import Finding, Severity
from checks.live import Body, LiveRule, LiveScene, absent, unknown
from checks.run_pods import pod_sets
from checks.waiting import INACTIVE, conditions
from settings.errors import nearest
from settings.quantities import amount, readable
from settings.workloads import Resources


def queue_absent(scene: LiveScene) -> Iterator[Finding]:
    """A run's LocalQueue is there."""
    own = {(one.namespace, one.name) for one in scene.settings.queues.local_queues}
    for path, run in scene.runs():
        there = scene.live.all("LocalQueue", run.namespace)
        if run.queue is None or "LocalQueue" in scene.live.unserved:
            continue
        if there is None:
            yield unknown("queue-absent", f"{path}.queue", f"whether namespace {run.namespace} has queue {run.queue}")
        elif run.queue not in there:
            yield absent(
                "queue-absent",
                f"{path}.queue",
                f"namespace {run.namespace} has no local queue {run.queue}",
                f"{nearest(run.queue, there)} (or have it made)",
                own=(run.namespace, run.queue) in own,
                stack=scene.settings.stack,
            )


def queue_inactive(scene: LiveScene) -> Iterator[Finding]:
    """A run's queue, and the cluster queue that it leads to, admit runs now."""
    cluster_queues = scene.live.all("ClusterQueue") or {}
    for path, run in scene.runs():
        queue = (scene.live.all("LocalQueue", run.namespace) or {}).get(run.queue or "")
        if queue is None:
            continue
        name = queue["spec"].get("clusterQueue", "")
        for what, body in ((f"cluster queue {name}", cluster_queues.get(name)), (f"queue {run.queue}", queue)):
            active = conditions(body).get("Active", {}) if body else {}
            if active.get("status") != "False":
                continue
            words = INACTIVE.get(active["reason"], f"admits nothing: {active.get('message', active['reason'])}")
            severity: Severity = "warning" if active["reason"] == "Stopped" else "error"
            remedy = "its owner can mend that; a run waits in it until then"
            yield Finding("queue-inactive", severity, f"{path}.queue", f"{what} {words}", remedy)
            break


def priority_missing(scene: LiveScene) -> Iterator[Finding]:
    """A run's WorkloadPriorityClass is there."""
    there = scene.live.all("WorkloadPriorityClass")
    own = {one.name for one in scene.settings.queues.priority_classes}
    for path, run in scene.runs():
        if run.priority is None or "WorkloadPriorityClass" in scene.live.unserved:
            continue
        if there is None:
            yield unknown("priority-missing", f"{path}.priority", f"whether there is a priority class {run.priority}")
        elif run.priority not in there:
            yield absent(
                "priority-missing",
                f"{path}.priority",
                f"the cluster has no WorkloadPriorityClass {run.priority}",
                f"{nearest(run.priority, there)} (or have it made)",
                own=run.priority in own,
                stack=scene.settings.stack,
            )


def flavor_nodes(scene: LiveScene) -> Iterator[Finding]:
    """Each flavor that a run may be given stands for at least one node; else its pods are admitted and stay Pending."""
    nodes, flavors = scene.live.all("Node"), scene.live.all("ResourceFlavor")
    if nodes is None or flavors is None or scene.live.grows:
        return
    for path, run in scene.runs():
        for name in _flavors(scene, run.namespace, run.queue):
            labels = (flavors.get(name, {}).get("spec") or {}).get("nodeLabels") or {}
            if name in flavors and not _matching(nodes, labels):
                message = f"no node bears the labels of flavor {name} ({_said(labels)}), which its queue gives"
                remedy = "label the nodes, or correct the flavor's nodeLabels"
                yield Finding("flavor-nodes", "error", f"{path}.queue", message, remedy)


def node_resources(scene: LiveScene) -> Iterator[Finding]:
    """For each kind of pod of a run there is a node that it selects and that could hold one, were it empty."""
    nodes = scene.live.all("Node")
    for path, run in scene.runs():
        if nodes is None:
            if run.node_selector or any("/" in name for name in run.resources.limits):
                yield unknown("node-resources", path, "whether a node has what its pods ask for: nodes")
            continue
        chosen = _matching(nodes, run.node_selector)
        if scene.live.grows:
            continue
        if not chosen:
            message = f"no node bears the labels that it selects ({_said(run.node_selector)})"
            known = sorted(
                {
                    str(body["metadata"].get("labels", {}).get(key))
                    for body in nodes.values()
                    for key in run.node_selector
                }
                - {"None"}
            )
            remedy = f"nodes have {', '.join(known)}" if known else "correct nodeSelector, or label the nodes"
            yield Finding("node-resources", "error", f"{path}.nodeSelector", message, remedy)
            continue
        for pods in pod_sets(path, run):
            yield from _too_small(pods.resources_path, pods.name, pods.resources, chosen)


def _too_small(path: str, name: str, resources: Resources, nodes: list[Body]) -> Iterator[Finding]:
    wanted = {each: amount(text) for each, text in {**resources.limits, **resources.requests}.items() if amount(text)}
    have = [{each: amount(str(text)) for each, text in body["status"]["allocatable"].items()} for body in nodes]
    if any(all(node.get(each, 0) >= need for each, need in wanted.items()) for node in have):
        return
    lacks = [each for each, need in wanted.items() if all(node.get(each, 0) < need for node in have)]
    for each in lacks:
        most = max(node.get(each, amount("0")) for node in have)
        message = f"a {name} pod asks for {readable(wanted[each])} {each}; a node has {readable(most)} at most"
        yield Finding("node-resources", "error", path, message, "ask for less in a pod, or use nodes that have it")
    if not lacks:
        message = (
            f"no node has at once what a {name} pod asks for ({_said({k: readable(v) for k, v in wanted.items()})})"
        )
        yield Finding("node-resources", "error", path, message, "ask for less in a pod, or use nodes that have it")


def _flavors(scene: LiveScene, namespace: str, queue: str | None) -> list[str]:
    """The flavors of the cluster queue that a local queue leads to."""
    local = (scene.live.all("LocalQueue", namespace) or {}).get(queue or "", {})
    name = (local.get("spec") or {}).get("clusterQueue", "")
    body = (scene.live.all("ClusterQueue") or {}).get(name, {})
    groups = (body.get("spec") or {}).get("resourceGroups") or ()
    return list(dict.fromkeys(str(flavor["name"]) for group in groups for flavor in group["flavors"]))


def _matching(nodes: Mapping[str, Body], labels: Mapping[str, str]) -> list[Body]:
    return [body for body in nodes.values() if labels.items() <= (body["metadata"].get("labels") or {}).items()]


def _said(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs.items()))


RULES: tuple[LiveRule, ...] = (queue_absent, queue_inactive, priority_missing, flavor_nodes, node_resources)
