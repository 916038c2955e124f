"""Sites: what their files may say, and what several of them make of one cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainstack.dev.cluster import access, folders
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.registry_access import RegistryAccess
from trainstack.dev.cluster.sites import definition, install, operators
from trainstack.dev.cluster.sites.definition import Site, SiteImage
from trainstack.dev.cluster.sites.kubectl import Kubectl
from trainstack.dev.cluster.spec import ClusterSpec

MIG = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"


def make_controller(name: str = "training-operator") -> dict[str, Any]:
    """A release's Deployment, as far as it is changed."""
    container = {"name": "manager", "readinessProbe": {"periodSeconds": 15}, "volumeMounts": []}
    spec = {"template": {"spec": {"containers": [container], "volumes": []}}}
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_a_site_is_read_from_its_file() -> None:
    """What is left out it does not have."""
    text = "gpus: 2\noperators: [kueue]\nimages: [{build: base, names: [a:1, b:2]}]\n"
    assert definition.parse("lab", text, "site.yaml") == Site.model_construct(
        name="lab",
        gpus=2,
        gpu_product=None,
        node_folders=(),
        operators=("kueue",),
        operator_kind="Deployment",
        images=(SiteImage.model_construct(build="base", names=("a:1", "b:2")),),
    )


def test_every_fault_of_a_site_is_told_at_once() -> None:
    """With the file and the place in it; numbers in quotes are text, and unknown keys are none."""
    with pytest.raises(ClusterError) as caught:
        definition.parse("lab", 'gpus: "2"\ngpu: 3\noperators: [slurm]\nimages: [{build: base}]\n', "lab/site.yaml")
    assert str(caught.value).splitlines() == [
        "lab/site.yaml: gpu: unknown key; did you mean gpus?",
        "lab/site.yaml: gpus: Input should be a valid integer, not '2'",
        "lab/site.yaml: images.0.names: Field required, not {'build': 'base'}",
        "lab/site.yaml: operators.0: Input should be 'kueue' or 'training-operator', not 'slurm'",
    ]


@pytest.mark.parametrize(("text", "said"), [("- a\n", "not a mapping"), ("a: [\n", "not YAML")])
def test_a_file_that_is_no_site_is_refused(text: str, said: str) -> None:
    """By what it is instead."""
    with pytest.raises(ClusterError, match=f"^lab/site.yaml: {said}"):
        definition.parse("lab", text, "lab/site.yaml")


def test_an_unknown_site_is_refused_with_the_nearest() -> None:
    """And with all that there are."""
    with pytest.raises(ClusterError, match=r"unknown site 'vspere': the sites are .*eidf.*Did you mean vsphere\?"):
        definition.load("vspere")
    with pytest.raises(ClusterError, match=r"unknown site '../eidf'"):
        definition.load("../eidf")


def test_the_sites_that_there_are() -> None:
    """The reference systems, by what they ask of the cluster's node."""
    chosen = {name: install.with_sites(ClusterSpec(), [name]) for name in definition.names()}
    assert {name: (spec.gpus, spec.gpu_product, spec.node_folders) for name, spec in chosen.items()} == {
        "azurestack": (0, "NVIDIA-A100-SXM4-40GB", ("/mnt/disks/local-storage",)),
        "eidf": (4, MIG, ()),
        "traindb": (0, "NVIDIA-A100-SXM4-40GB", ("/home/traindbjst/traindb/models",)),
        "vsphere": (2, "NVIDIA-A100-SXM4-40GB", ()),
    }


def test_several_sites_fit_on_one_cluster() -> None:
    """It has the most GPUs and the folders of all; a site that is there already changes nothing."""
    one = install.with_sites(ClusterSpec(gpus=1, max_pods=10), ["eidf"])
    both = install.with_sites(one, ["traindb", "vsphere"])
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
    """Both sites are named."""
    monkeypatch.setattr(install, "load", lambda name: definition.parse(name, f"gpuProduct: product-of-{name}", "file"))
    with pytest.raises(ClusterError, match="a requires product-of-a, b requires product-of-b"):
        install.with_sites(ClusterSpec(), ["a", "b"])


def test_an_operator_is_cut_to_the_machine() -> None:
    """It requests no cpu, is asked every second whether it is ready, and finds its init container's template."""
    controller = make_controller()
    operators.adapt(operators.OPERATORS["training-operator"], [controller])
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
    """By the name that was looked for."""
    with pytest.raises(ClusterError, match="the release of kueue has no Deployment kueue-controller-manager"):
        operators.adapt(operators.OPERATORS["kueue"], [make_controller("other")])


def test_an_operator_runs_in_a_stateful_set_where_the_site_has_one() -> None:
    """As a charm runs it: after a supervisor, and with the charm's label alone, by which its Service finds it."""
    labels = {"app.kubernetes.io/name": "training-operator"}
    service = {
        "kind": "Service",
        "metadata": {"name": "training-operator"},
        "spec": {"selector": {"a": "b"}, "ports": []},
    }
    definition_ = {"kind": "CustomResourceDefinition", "metadata": {"name": "pytorchjobs.kubeflow.org"}, "spec": {}}
    controller = make_controller()
    made = operators.as_stateful_set(operators.OPERATORS["training-operator"], [definition_, service, controller])
    assert list(made) == [
        definition_,
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
                                "command": ["sh", "-c", operators.SUPERVISOR],
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
    """Those of the reference systems whose pod is called training-operator-0."""
    kinds = {name: definition.load(name).operator_kind for name in definition.names()}
    assert [name for name, kind in kinds.items() if kind == "StatefulSet"] == ["traindb", "vsphere"]


class RecordingKubectl(Kubectl):
    """A cluster that holds some objects; it keeps what is asked of it."""

    def __init__(self, *there: str) -> None:
        """Nothing runs; `there` are `<kind>/<name>`."""
        super().__init__(Path())
        self.there, self.asked = there, list[str]()

    def __call__(self, *words: str) -> str:
        """Record it."""
        self.asked.append(" ".join(words))
        return ""

    def exists(self, kind: str, name: str, namespace: str) -> bool:
        """Whether it is one of them."""
        return f"{namespace} {kind}/{name}" in self.there


@pytest.mark.parametrize("kind", ["statefulset", "deployment"])
def test_an_operator_that_is_there_is_left_in_its_form(kind: str) -> None:
    """Sites of both forms fit on one cluster: the one that came first stays, and is waited for."""
    kubectl = RecordingKubectl(f"kubeflow {kind}/training-operator")
    for wanted in operators.KINDS:
        operators.install(kubectl, "training-operator", wanted)
    assert kubectl.asked == [f"rollout status {kind} training-operator -n kubeflow --timeout=120s"] * 2


@pytest.mark.parametrize("account", ["researcher", "eidf001/", "/researcher", "a/b/c", ""])
def test_an_account_is_named_with_its_namespace(account: str, tmp_path: Path) -> None:
    """Anything else is refused before the cluster is asked."""
    running = Cluster(tmp_path, tmp_path, "https://198.18.254.2:6443", RegistryAccess("", tmp_path), "local", "", "", 1)
    with pytest.raises(ClusterError, match="is not of the form <namespace>/<service account>"):
        access.write_kubeconfig(running, account)


def test_folders_that_were_made_go_with_the_last_cluster_that_covers_them(tmp_path: Path) -> None:
    """Those of a cluster that runs stay, and so does what was there before or has come since."""
    kept, made = tmp_path / "kept", tmp_path / "kept" / "a" / "b"
    kept.mkdir()
    folders.make(made, "trainstack-1")
    folders.make(made, "trainstack-2")
    folders.remove([str(made)], {"trainstack-2", "trainstack-3"})
    assert made.is_dir()
    (made.parent / "file").touch()
    folders.remove([str(made)], {"trainstack-3"})
    assert [path.name for path in made.parent.iterdir()] == ["file"]
    (made.parent / "file").unlink()
    folders.remove([str(made)], set())
    assert list(kept.iterdir()) == []
    assert kept.is_dir()


def test_a_folder_that_nobody_made_is_never_removed(tmp_path: Path) -> None:
    """Also where a cluster covered it."""
    folders.make(tmp_path / "own", "")
    (tmp_path / "theirs").mkdir()
    folders.make(tmp_path / "theirs", "trainstack-1")
    folders.remove([str(tmp_path / "own"), str(tmp_path / "theirs")], set())
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_the_state_keeps_a_clusters_sites(tmp_path: Path) -> None:
    """As JSON that a person can read."""
    spec = install.with_sites(ClusterSpec(), ["traindb"])
    assert json.loads(spec.to_json())["sites"] == ["traindb"]
    assert ClusterSpec.from_json(spec.to_json()) == spec
