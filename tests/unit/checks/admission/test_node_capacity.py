"""Node shapes: affinity, which runs cannot say but other workloads can, and what is not known."""

from trainstack.kueue.model import Model, Node, PodSet, Requirement, Workload
from trainstack.kueue.node_capacity import oversized


def make_node(name: str, **labels: str) -> Node:
    """A node with 2 cores."""
    return Node(name, labels, (), {"cpu": 2000})


def make_model(*nodes: Node, grows: bool = False) -> Model:
    """A cluster of these nodes, and no queues."""
    return Model(flavors={}, cluster_queues={}, local_queues={}, nodes=nodes, grows=grows)


def make_workload(*terms: tuple[Requirement, ...], cpu: int = 1000, count: int = 1) -> Workload:
    """Pods with a core each, on nodes of these terms."""
    pods = PodSet("main", count, {"cpu": cpu * count}, affinity=terms, resources_path="run.resources")
    return Workload("run", "research", "q", (pods,), path="run")


def needs(key: str, operator: str, *values: str) -> Requirement:
    """One expression."""
    return Requirement(key, operator, values)


def messages(workload: Workload, model: Model) -> list[str]:
    """What is found."""
    return [each.message for each in oversized(workload, (), model)]


def test_of_the_terms_one_suffices_and_of_a_term_all_expressions() -> None:
    """As the scheduler reads a required node affinity."""
    model = make_model(make_node("a", pool="a", disk="ssd"))
    ssd, hdd, of_b = needs("disk", "In", "ssd"), needs("disk", "In", "hdd"), needs("pool", "In", "b")
    assert messages(make_workload((ssd,), (hdd,)), model) == []
    assert messages(make_workload((ssd, needs("pool", "Exists"))), model) == []
    (found,) = oversized(make_workload((ssd, of_b), (hdd,)), (), model)
    assert (found.cause, found.path) == ("shape", "run.nodeSelector")
    assert found.message == (
        "no node has the labels that the pods select (disk In, disk In, pool In); existing labels: disk=ssd, pool=a"
    )


def test_a_term_without_expressions_takes_no_node() -> None:
    """It is no wildcard. Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/"""
    assert len(messages(make_workload(()), make_model(make_node("a")))) == 1


def test_one_pod_counts_and_not_all_of_them() -> None:
    """Ten pods of a core each stand on nodes of two."""
    assert messages(make_workload(count=10), make_model(make_node("a"))) == []
    assert messages(make_workload(cpu=2500), make_model(make_node("a"))) == [
        "a pod requests 2.5 cpu; the largest node has 2"
    ]


def test_a_cluster_without_nodes_holds_nothing() -> None:
    """Whatever pods ask for."""
    assert messages(make_workload(), make_model()) == ["the cluster has no nodes"]


def test_nothing_is_said_of_nodes_that_are_not_known() -> None:
    """Nor where they are made on demand."""
    workload, model = make_workload(cpu=9000), make_model(make_node("a"), grows=True)
    assert messages(workload, model) == []
    assert messages(workload, Model(flavors={}, cluster_queues={}, local_queues={})) == []
