"""Sites: the content of their files, and several sites on one cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainstack.local_cluster import mount_points, tenant_kubeconfigs
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.registry_access import RegistryAccess
from trainstack.local_cluster.sites import definition, install, operators
from trainstack.local_cluster.sites.definition import Site, SiteImage
from trainstack.local_cluster.sites.kubectl import Kubectl
from trainstack.local_cluster.spec import ClusterSpec

MIG = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"


def make_controller(name: str = "training-operator") -> dict[str, Any]:
    """Return the Deployment of a release, as far as it is adapted."""
    container = {"name": "manager", "readinessProbe": {"periodSeconds": 15}, "volumeMounts": []}
    spec = {"template": {"spec": {"containers": [container], "volumes": []}}}
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_a_site_is_read_from_its_file() -> None:
    """Omitted parts are absent."""
    text = "gpus: 2\noperators: [kueue]\nimages: [{build: base, names: [a:1, b:2]}]\n"
    assert definition.parse_site("lab", text, "site.yaml") == Site.model_construct(
        name="lab",
        gpus=2,
        gpu_product=None,
        node_folders=(),
        operators=("kueue",),
        operator_kind="Deployment",
        images=(SiteImage.model_construct(build="base", names=("a:1", "b:2")),),
    )


def test_every_fault_of_a_site_is_reported_at_once() -> None:
    """Each fault has the file and the key; numbers in quotes are text."""
    with pytest.raises(LocalClusterError) as caught:
        definition.parse_site(
            "lab", 'gpus: "2"\ngpu: 3\noperators: [slurm]\nimages: [{build: base}]\n', "lab/site.yaml"
        )
    first, *lines = str(caught.value).splitlines()
    assert first == "lab/site.yaml: 4 validation errors for Site"
    assert {"gpu", "gpus", "images.0.names", "operators.0"} < {*lines}


@pytest.mark.parametrize(("text", "message"), [("- a\n", ".* not a mapping"), ("a: [\n", "while parsing")])
def test_an_invalid_site_file_is_refused(text: str, message: str) -> None:
    """The message describes the actual content."""
    with pytest.raises(LocalClusterError, match=f"^lab/site.yaml: {message}"):
        definition.parse_site("lab", text, "lab/site.yaml")


def test_an_unknown_site_is_refused_with_the_nearest() -> None:
    """The error also lists all sites."""
    with pytest.raises(LocalClusterError, match=r"unknown site 'vspere': the sites are .*eidf.*Did you mean vsphere\?"):
        definition.load_site("vspere")
    with pytest.raises(LocalClusterError, match=r"unknown site '../eidf'"):
        definition.load_site("../eidf")


def test_the_sites_that_there_are() -> None:
    """They are the reference systems, by their demands on the cluster's node."""
    chosen = {name: install.with_sites(ClusterSpec(), [name]) for name in definition.site_names()}
    assert {name: (spec.gpus, spec.gpu_product, spec.node_folders) for name, spec in chosen.items()} == {
        "azurestack": (0, "NVIDIA-A100-SXM4-40GB", ("/mnt/disks/local-storage",)),
        "eidf": (4, MIG, ()),
        "traindb": (0, "NVIDIA-A100-SXM4-40GB", ("/home/traindbjst/traindb/models",)),
        "vsphere": (2, "NVIDIA-A100-SXM4-40GB", ()),
    }


def test_several_sites_fit_on_one_cluster() -> None:
    """The cluster has the most GPUs and the folders of all; a site that it already has changes nothing."""
    first = install.with_sites(ClusterSpec(gpus=1, max_pods=10), ["eidf"])
    both = install.with_sites(first, ["traindb", "vsphere"])
    assert both == ClusterSpec(
        gpus=4,
        gpu_product=MIG,
        max_pods=10,
        node_folders=("/home/traindbjst/traindb/models",),
        sites=("eidf", "traindb", "vsphere"),
    )
    assert install.with_sites(both, ["eidf"]) == both
    assert install.with_sites(ClusterSpec(gpus=3), []) == ClusterSpec(gpus=3)


def test_two_products_do_not_fit_on_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has both sites."""
    monkeypatch.setattr(
        install, "load_site", lambda name: definition.parse_site(name, f"gpuProduct: product-of-{name}", "file")
    )
    with pytest.raises(LocalClusterError, match="a requires product-of-a, b requires product-of-b"):
        install.with_sites(ClusterSpec(), ["a", "b"])


def test_an_operator_is_cut_to_the_machine() -> None:
    """It requests no cpu, is probed every second, and finds its init container's template."""
    controller = make_controller()
    operators.adapt_controller(operators.OPERATORS["training-operator"], [controller])
    assert controller["spec"]["template"]["spec"] == {
        "containers": [
            {
                "name": "manager",
                "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 1},
                "resources": {"requests": {"cpu": "0"}},
                "args": ["--pytorch-init-container-image=registry.local/trainstack/init-pytorch:1"],
                "volumeMounts": [{"name": "init-container", "mountPath": "/etc/config", "readOnly": True}],
            }
        ],
        "volumes": [{"name": "init-container", "configMap": {"name": "init-container"}}],
    }


def test_a_release_without_its_controller_is_refused() -> None:
    """The error has the name of the missing object."""
    with pytest.raises(LocalClusterError, match="the release of kueue has no Deployment kueue-controller-manager"):
        operators.adapt_controller(operators.OPERATORS["kueue"], [make_controller("other")])


def test_an_operator_runs_in_a_stateful_set_where_the_site_has_one() -> None:
    """A charm runs it after a supervisor, and with the charm's label alone, which its Service selects."""
    labels = {"app.kubernetes.io/name": "training-operator"}
    service = {
        "kind": "Service",
        "metadata": {"name": "training-operator"},
        "spec": {"selector": {"a": "b"}, "ports": []},
    }
    pytorchjobs = {"kind": "CustomResourceDefinition", "metadata": {"name": "pytorchjobs.kubeflow.org"}, "spec": {}}
    controller = make_controller()
    objects = operators.as_stateful_set(operators.OPERATORS["training-operator"], [pytorchjobs, service, controller])
    assert list(objects) == [
        pytorchjobs,
        {**service, "spec": {"selector": labels, "ports": []}},
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "training-operator", "labels": labels},
            "spec": {
                "serviceName": "training-operator",
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": [
                            {
                                "name": "charm",
                                "image": "registry.local/trainstack/init-pytorch:1",
                                "command": ["sh", "-c", operators.SUPERVISOR_COMMAND],
                            },
                            {**controller["spec"]["template"]["spec"]["containers"][0], "name": "training-operator"},
                        ],
                        "volumes": [],
                    },
                },
            },
        },
    ]


def test_the_sites_whose_operator_is_a_stateful_sets() -> None:
    """They are the reference systems whose pod is called training-operator-0."""
    kinds = {name: definition.load_site(name).operator_kind for name in definition.site_names()}
    assert [name for name, kind in kinds.items() if kind == "StatefulSet"] == ["traindb", "vsphere"]


class RecordingKubectl(Kubectl):
    """A cluster that holds some objects and records the calls."""

    def __init__(self, *present: str) -> None:
        """Start nothing; `present` are `<kind>/<name>`."""
        super().__init__(Path())
        self.present, self.calls = present, list[str]()

    def __call__(self, *words: str) -> str:
        """Record the call."""
        self.calls.append(" ".join(words))
        return ""

    def exists(self, kind: str, name: str, namespace: str) -> bool:
        """Return whether the object is present."""
        return f"{namespace} {kind}/{name}" in self.present


@pytest.mark.parametrize("kind", ["statefulset", "deployment"])
def test_an_operator_that_is_there_is_left_in_its_form(kind: str) -> None:
    """Sites of both forms fit on one cluster: the first form is kept and awaited."""
    kubectl = RecordingKubectl(f"kubeflow {kind}/training-operator")
    for form in operators.CONTROLLER_KINDS:
        operators.install(kubectl, "training-operator", form)
    assert kubectl.calls == [f"rollout status {kind} training-operator -n kubeflow --timeout=120s"] * 2


@pytest.mark.parametrize("account", ["researcher", "eidf001/", "/researcher", "a/b/c", ""])
def test_an_account_is_named_with_its_namespace(account: str, tmp_path: Path) -> None:
    """Any other form is refused before a request."""
    running = LocalCluster(
        tmp_path, tmp_path, "https://198.18.254.2:6443", RegistryAccess("", tmp_path), "local", "", "", 1
    )
    with pytest.raises(LocalClusterError, match="is not of the form <namespace>/<service account>"):
        tenant_kubeconfigs.write_kubeconfig(running, account)


def test_folders_that_were_made_go_with_the_last_cluster_that_covers_them(tmp_path: Path) -> None:
    """Folders of running clusters are kept, and so are earlier ones and those with new content."""
    kept, created = tmp_path / "kept", tmp_path / "kept" / "a" / "b"
    kept.mkdir()
    mount_points.make_mount_point(created, "trainstack-1")
    mount_points.make_mount_point(created, "trainstack-2")
    mount_points.remove_mount_points([str(created)], {"trainstack-2", "trainstack-3"})
    assert created.is_dir()
    (created.parent / "file").touch()
    mount_points.remove_mount_points([str(created)], {"trainstack-3"})
    assert [path.name for path in created.parent.iterdir()] == ["file"]
    (created.parent / "file").unlink()
    mount_points.remove_mount_points([str(created)], set())
    assert list(kept.iterdir()) == []
    assert kept.is_dir()


def test_a_folder_that_existed_before_is_never_removed(tmp_path: Path) -> None:
    """The same holds if a cluster covered it."""
    mount_points.make_mount_point(tmp_path / "own", "")
    (tmp_path / "theirs").mkdir()
    mount_points.make_mount_point(tmp_path / "theirs", "trainstack-1")
    mount_points.remove_mount_points([str(tmp_path / "own"), str(tmp_path / "theirs")], set())
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_the_state_keeps_a_clusters_sites(tmp_path: Path) -> None:
    """The JSON is legible for people."""
    spec = install.with_sites(ClusterSpec(), ["traindb"])
    assert json.loads(spec.to_json())["sites"] == ["traindb"]
    assert ClusterSpec.from_json(spec.to_json()) == spec
