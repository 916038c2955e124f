"""Node shapes: affinities, sizes and unknown nodes."""

from trainstack.kueue.model import ClusterNode, Model, PodSet, Requirement, Workload
from trainstack.kueue.node_capacity import unplaceable_pods


def make_node(name: str, **labels: str) -> ClusterNode:
    """Return a node with 2 cores."""
    return ClusterNode(name, labels, (), {"cpu": 2000})


def make_model(*nodes: ClusterNode, grows: bool = False) -> Model:
    """Return a cluster with these nodes and no queues."""
    return Model(flavors={}, cluster_queues={}, local_queues={}, nodes=nodes, has_autoscaler=grows)


def make_workload(*terms: tuple[Requirement, ...], cpu: int = 1000, count: int = 1) -> Workload:
    """Return pods with one core each, with an affinity of these terms."""
    pods = PodSet("main", count, {"cpu": cpu * count}, affinity=terms, resources_path="run.resources")
    return Workload("run", "research", "q", (pods,), path="run")


def needs(key: str, operator: str, *values: str) -> Requirement:
    """Return one expression."""
    return Requirement(key, operator, values)


def messages(workload: Workload, model: Model) -> list[str]:
    """Return the messages of the reasons."""
    return [reason.message for reason in unplaceable_pods(workload, (), model)]


def test_all_expressions_of_one_term_must_match() -> None:
    """The semantics are those of a required node affinity."""
    model = make_model(make_node("a", pool="a", disk="ssd"))
    ssd, hdd, of_b = needs("disk", "In", "ssd"), needs("disk", "In", "hdd"), needs("pool", "In", "b")
    assert messages(make_workload((ssd,), (hdd,)), model) == []
    assert messages(make_workload((ssd, needs("pool", "Exists"))), model) == []
    (reason,) = unplaceable_pods(make_workload((ssd, of_b), (hdd,)), (), model)
    assert (reason.cause, reason.path) == ("shape", "run.nodeSelector")
    assert reason.message == (
        "no node has the labels that the pods select (disk In, disk In, pool In); existing labels: disk=ssd, pool=a"
    )


def test_a_term_without_expressions_matches_no_node() -> None:
    """It is not a wildcard. Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/"""
    assert len(messages(make_workload(()), make_model(make_node("a")))) == 1


def test_the_size_of_one_pod_counts() -> None:
    """Ten pods of one core fit on nodes of two."""
    assert messages(make_workload(count=10), make_model(make_node("a"))) == []
    assert messages(make_workload(cpu=2500), make_model(make_node("a"))) == [
        "a pod requests 2.5 cpu; the largest node has 2"
    ]


def test_no_pod_fits_on_a_cluster_without_nodes() -> None:
    assert messages(make_workload(), make_model()) == ["the cluster has no nodes"]


def test_unknown_nodes_have_no_reasons() -> None:
    """Nodes of an autoscaler have none either."""
    workload, model = make_workload(cpu=9000), make_model(make_node("a"), grows=True)
    assert messages(workload, model) == []
    assert messages(workload, Model(flavors={}, cluster_queues={}, local_queues={})) == []
