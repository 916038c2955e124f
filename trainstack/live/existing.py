"""What people have made in a namespace by hand, and what it stands on, read whole."""

from collections.abc import Iterator

from trainstack.live import paths
from trainstack.live.client import FORBIDDEN, NOT_FOUND, Answer, read
from trainstack.live.controllers import LISTS, Controllers, controllers, split_image
from trainstack.onboarding.adopt.found import Body, Found, Operator
from trainstack.preflight.operator_facts import OPERATORS

_KUEUE = "kueue.x-k8s.io/v1beta2"
_GROUP = "/apis/kueue.x-k8s.io"
_WHERE = {
    "namespace": ("v1", "Namespace", False),
    "claims": ("v1", "PersistentVolumeClaim", True),
    "all_claims": ("v1", "PersistentVolumeClaim", False),
    "persistent_volumes": ("v1", "PersistentVolume", False),
    "classes": ("storage.k8s.io/v1", "StorageClass", False),
    "local_queues": (_KUEUE, "LocalQueue", True),
    "cluster_queues": (_KUEUE, "ClusterQueue", False),
    "flavors": (_KUEUE, "ResourceFlavor", False),
    "cohorts": (_KUEUE, "Cohort", False),
    "priority_classes": (_KUEUE, "WorkloadPriorityClass", False),
}
"""By field: API version, kind, and whether the namespace's alone are asked for."""


def read_existing(namespace: str, context: str | None, *, cluster_wide: bool) -> Found | None:
    """Everything that `trainstack adopt` looks at; None where there is no such namespace.

    What may not be read is told in `unreadable`, and counts as not there; the claims of other namespaces are None then.

    Args:
        namespace: the namespace.
        context: the kubeconfig's context; None: its current one.
        cluster_wide: also ask for what is no namespace's, and for claims and controllers in all of them. Never with a
            tenant's profile, which can take over none of it; whether there is such a namespace is not known then.

    Raises ClusterError as `client.read` does.

    """
    asked = {
        name: paths.collection(version, kind, namespace if within else None)
        for name, (version, kind, within) in _WHERE.items()
        if within or cluster_wide
    }
    if cluster_wide:
        asked["namespace"] += f"/{namespace}"
    answers = read([*asked.values(), *((_GROUP, *LISTS) if cluster_wide else ())], context)
    if cluster_wide and answers[asked["namespace"]].status not in (200, FORBIDDEN):
        return None
    bodies = {name: _items(name, answers[path]) for name, path in asked.items() if name != "namespace"}
    everywhere = bodies.pop("all_claims", ())
    others = tuple(each for each in everywhere if each["metadata"]["namespace"] != namespace)
    group = answers.get(_GROUP, Answer(NOT_FOUND, {}))
    installed = controllers(answers) if cluster_wide else None
    return Found(
        namespace=namespace,
        foreign_claims=others if cluster_wide and answers[asked["all_claims"]].found else None,
        operators=tuple(_operators(installed)) if installed else (),
        unreadable=tuple(_unreadable(asked, group, {name: answers[path] for name, path in asked.items()})),
        **bodies,
    )


def _items(name: str, answer: Answer) -> tuple[Body, ...]:
    version, kind, _ = _WHERE[name]
    # Items of a list do not say what they are.
    return tuple({"apiVersion": version, "kind": kind, **item} for item in answer.body.get("items", ()))


def _unreadable(asked: dict[str, str], group: Answer, answers: dict[str, Answer]) -> Iterator[str]:
    for name, path in asked.items():
        if answers[name].status == FORBIDDEN and name != "namespace":
            without = "no class" if name == "all_claims" else "none"
            yield f"{path.rpartition('/')[2]} may not be read ({path}), so {without} is taken over"
    served = [each["version"] for each in group.body.get("versions", ())]
    if group.found and "v1beta2" not in served:
        yield f"Kueue serves {', '.join(served)} and not v1beta2, so no queue is taken over: upgrade Kueue to v0.15"


def _operators(installed: Controllers) -> Iterator[Operator]:
    for facts in OPERATORS.values():
        if controller := installed.find(facts):
            version = split_image(controller.container["image"])[1] or "of an unnamed version"
            yield Operator(name=facts.title, namespace=controller.namespace, version=version)
