"""The programs of a cluster and their order."""

from pathlib import Path

import trainstack
from trainstack.local_cluster.config import components
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout
from trainstack.local_cluster.supervisor_plan import ClusterComponent, SupervisorPlan
from trainstack.local_cluster.supervisor_process import environment


def make_components(spec: ClusterSpec) -> dict[str, ClusterComponent]:
    """Return components by name, with programs in /tools."""
    found = components(Layout(Path("/state")), Slot(0), spec, lambda name: Path("/tools", name))
    return {component.name: component for component in found}


def make_plan() -> SupervisorPlan:
    """Return a plan with every component."""
    return SupervisorPlan(
        state="/state",
        node_ip="198.18.254.2",
        link="node0",
        service_range="198.18.128.0/20",
        certs="/state/certs",
        components=tuple(make_components(ClusterSpec(simulated_nodes=1)).values()),
    )


def test_each_component_comes_after_what_it_needs() -> None:
    """The order is that in which they become ready."""
    assert {name: component.after for name, component in make_components(ClusterSpec(simulated_nodes=1)).items()} == {
        "etcd": (),
        "registry": (),
        "containerd": (),
        "images": ("containerd",),
        "apiserver": ("etcd",),
        "controller-manager": ("apiserver",),
        "scheduler": ("apiserver",),
        "reconcile": ("apiserver",),
        "kubelet": ("apiserver", "containerd", "images"),
        "proxy": ("apiserver",),
        "coredns": ("reconcile",),
        "storage-shared": ("reconcile",),
        "storage-node": ("reconcile",),
        "kwok": ("reconcile",),
    }


def test_kwok_runs_only_for_simulated_nodes() -> None:
    """The program need not be built without them."""
    assert "kwok" not in make_components(ClusterSpec(gpus=4))


def test_the_api_server_authorizes_nodes_and_people() -> None:
    """Nodes may access only their own objects, all others are authorized by role; no port is insecure."""
    argv = make_components(ClusterSpec())["apiserver"].argv
    assert argv[0] == "/tools/kube-apiserver"
    assert "--authorization-mode=Node,RBAC" in argv
    assert "--enable-admission-plugins=NodeRestriction" in argv
    assert "--kubelet-preferred-address-types=InternalIP" in argv
    assert "--proxy-client-cert-file=/state/certs/front-proxy.crt" in argv


def test_the_audit_log_is_written_where_it_is_enabled() -> None:
    """Without the option the API server has no audit log."""
    (quiet, audited) = (make_components(ClusterSpec(audit=audit))["apiserver"].argv for audit in (False, True))
    assert set(audited) - set(quiet) == {
        "--audit-policy-file=/state/config/audit-policy.json",
        "--audit-log-path=/state/log/audit.log",
        "--audit-log-maxsize=100000",
    }
    assert not [word for word in quiet if word.startswith("--audit")]


def test_what_users_wait_for_has_all_processors() -> None:
    """The other programs have one each, so that an idle cluster wakes fewer threads."""
    found = make_components(ClusterSpec(simulated_nodes=1))
    single = {name for name, component in found.items() if component.environment == {"GOMAXPROCS": "1"}}
    assert single == {"etcd", "controller-manager", "scheduler", "proxy", "coredns", "storage-shared", "storage-node"}
    assert [name for name in found if found[name].environment and name not in single] == []


def test_storage_has_two_kinds() -> None:
    """One provisioner is for shared volumes of any class name, one for volumes tied to a node."""
    found = make_components(ClusterSpec())
    for kind, provisioner in (("shared", "rancher.io/local-path"), ("node", "rancher.io/local-path-node")):
        argv = found[f"storage-{kind}"].argv
        assert f"--provisioner-name={provisioner}" in argv
        assert f"--config=/state/config/storage-{kind}.json" in argv


def test_a_plan_reaches_the_supervisor_unchanged() -> None:
    """The pipe transfers it as JSON."""
    assert SupervisorPlan.from_json(make_plan().to_json()) == make_plan()


def test_programs_import_this_checkouts_package() -> None:
    """The supervisor is a module of it, whatever Python's environment has installed."""
    assert Path(trainstack.__file__).parents[1] == Path(environment({})["PYTHONPATH"])


def test_programs_have_the_callers_garbage_collection_and_no_proxy() -> None:
    """GOGC is the only variable of the caller that a cluster uses."""
    own = environment({})
    assert environment({"GOGC": "400", "HTTPS_PROXY": "http://proxy", "PATH": "/none"}) == {**own, "GOGC": "400"}
