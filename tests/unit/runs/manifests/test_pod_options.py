"""Affinity, scratch volumes, capabilities, the node's network and patches of a run's pods."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from tests.unit.make import make_distributed, make_mount, make_run
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import make_launch
from tests.unit.sweeps.planned_sweeps import make_indexed, make_planned
from trainstack.objects.labels import DEFAULT_CONTAINER
from trainstack.runs.errors import ReservedVariableError, WorkloadError
from trainstack.runs.identity import PLACEHOLDER_FACTS, identity
from trainstack.runs.manifests.build import companions, manifest, plan_launch
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.pod_patch import MAIN_CONTAINERS, PodPatchError
from trainstack.runs.manifests.trainjob import unsupported_settings
from trainstack.runs.role_pods import NODE
from trainstack.runs.status import main_container
from trainstack.runs.status.main_container import main_container_name
from trainstack.settings.base import Toleration
from trainstack.settings.sections.affinity import Affinity
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.pod_options import Capabilities, Scratch
from trainstack.settings.sections.secrets import EnvSource
from trainstack.settings.sections.workloads import ReplicatedJob, Role, Workload
from trainstack.stack_objects.launch_groups import first_launches
from trainstack.sweeps.planned_sweep import PlannedSweep

KINDS = ("Job", "Pod", "DataLoader", "PyTorchJob", "TrainJob", "JobSet")
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": ({"matchExpressions": ({"key": "disk", "operator": "In", "values": ("ssd",)},)},)
        },
        "preferredDuringSchedulingIgnoredDuringExecution": (
            {
                "weight": 1,
                "preference": {"matchFields": ({"key": "metadata.name", "operator": "In", "values": ("n",)},)},
            },
        ),
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": (
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}},
        )
    },
}
SIDECAR = {
    "name": "proxy",
    "image": "proxy:1",
    "resources": {"requests": {"cpu": "250m"}},
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}


def of_kind(kind: str, **changes: Any) -> Workload:
    """Return a run of this kind, managed if the kind allows it."""
    fields_of_kind: dict[str, Any] = {
        "PyTorchJob": {"roles": {"Master": Role(), "Worker": Role()}},
        "TrainJob": {"roles": {"Master": Role(), "Worker": Role()}},
        "JobSet": {"replicated_jobs": (ReplicatedJob(name="node", parallelism=2),)},
        "DataLoader": {"managed": False, "record": None},
    }
    return make_run(**{"kind": kind, **fields_of_kind.get(kind, {}), **changes})


def pods(workload: Workload) -> list[Mapping[str, Any]]:
    """Return the templates of a run's pods."""
    launch = make_launch(git_image="git")
    built = manifest(workload, "dev", launch), companions(workload, "dev", launch)
    return [launched.template for launched in launched_pods(*built)]


def patched(spec: dict[str, Any], **changes: Any) -> Mapping[str, Any]:
    """Return the pod spec of a Job with this patch of the spec."""
    (template,) = pods(make_run(pod_patch={"spec": spec}, **changes))
    patched_spec: Mapping[str, Any] = template["spec"]
    return patched_spec


def refused(patch: dict[str, Any], **changes: Any) -> list[str]:
    """Return the paths of a patch's faults."""
    with pytest.raises(PodPatchError) as error:
        pods(make_run(pod_patch=patch, **changes))
    return [fault.path for fault in error.value.faults]


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_every_kind_have_the_fields(kind: str) -> None:
    """A restricted namespace still accepts the pods, except for the host network."""
    scratch = (
        Scratch(name="disk", mount_path="/disk", size="1Gi"),
        Scratch(name="ram", mount_path="/ram", medium="Memory"),
        Scratch(name="claim", mount_path="/claim", size="2Gi", storage_class="fast"),
    )
    patch = {"metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}}, "spec": {"runtimeClassName": "kata"}}
    run = of_kind(
        kind,
        affinity=Affinity.model_validate(AFFINITY),
        scratch=scratch,
        capabilities=Capabilities(add=("NET_BIND_SERVICE",)),
        host_network=True,
        pod_patch=patch,
        run_as_user=1000,
    )
    templates = pods(run)
    assert templates
    for template in templates:
        spec, main = template["spec"], template["spec"]["containers"][0]
        affinity = spec["affinity"]
        required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        expression = {"key": "disk", "operator": "In", "values": ["ssd"]}
        assert required == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        (term,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert volumes["trainstack-scratch-disk"]["emptyDir"] == {"sizeLimit": "1Gi"}
        assert volumes["trainstack-scratch-ram"]["emptyDir"] == {"medium": "Memory"}
        claim = volumes["trainstack-scratch-claim"]["ephemeral"]["volumeClaimTemplate"]["spec"]
        assert (claim["storageClassName"], claim["resources"]) == ("fast", {"requests": {"storage": "2Gi"}})
        mounts = {mount["name"]: mount["mountPath"] for mount in main["volumeMounts"]}
        assert {mounts[f"trainstack-scratch-{name}"] for name in ("disk", "ram", "claim")} == {
            "/disk",
            "/ram",
            "/claim",
        }
        assert main["securityContext"]["capabilities"] == {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}
        assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
        assert spec["runtimeClassName"] == "kata"
        assert template["metadata"]["labels"]["team"] == "a"
        assert template["metadata"]["annotations"]["b"] == "c"
        assert violations(copy.deepcopy(spec)) == ["pod sets hostNetwork", f"{main['name']} has capabilities", *_CLAIM]


_CLAIM = ["volume trainstack-scratch-claim is of a kind"]
"""The test helper `violations` does not support generic ephemeral volumes."""


@pytest.mark.parametrize("kind", KINDS)
def test_added_containers_follow_the_main_one(kind: str) -> None:
    """kubectl would insert them before it. A TrainJob sets the program of only its own container."""
    run = of_kind(kind, pod_patch={"spec": {"containers": [SIDECAR], "initContainers": [{**SIDECAR, "name": "init"}]}})
    for template in pods(run):
        names = [container["name"] for container in template["spec"]["containers"]]
        assert names[0] in MAIN_CONTAINERS
        assert names[1:] == ["proxy"]
        assert template["spec"]["containers"][1]["image"] == "proxy:1"


def test_capabilities_of_a_baseline_run_are_relative_to_the_runtime() -> None:
    """Only the run's `drop` is dropped."""
    capabilities = Capabilities(add=("SYS_PTRACE",), drop=("CHOWN",))
    (template,) = pods(make_run(security="baseline", capabilities=capabilities))
    context = template["spec"]["containers"][0]["securityContext"]
    assert context == {"capabilities": {"add": ["SYS_PTRACE"], "drop": ["CHOWN"]}}


def mounting(path: str) -> list[dict[str, str]]:
    """Return a mount at this path."""
    return [{"name": "x", "mountPath": path}]


MAIN = "spec.containers[training]"
REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}},
        ['metadata.labels["kueue.x-k8s.io/queue-name"]'],
    ),
    ({"metadata": {"labels": {"trainstack.dev/run": "x"}}}, ['metadata.labels["trainstack.dev/run"]']),
    ({"metadata": {"annotations": {"pulumi.com/x": "y"}}}, ['metadata.annotations["pulumi.com/x"]']),
    ({"spec": {"priorityClassName": "high"}}, ["spec.priorityClassName"]),
    ({"spec": {"automountServiceAccountToken": True}}, ["spec.automountServiceAccountToken"]),
    ({"spec": {"hostNetwork": True}}, ["spec.hostNetwork"]),
    ({"spec": {"nodeName": "n"}}, ["spec.nodeName"]),
    ({"spec": {"schedulingGates": [{"name": "g"}]}}, ["spec.schedulingGates"]),
    ({"spec": {"resourceClaims": [{"name": "g"}]}}, ["spec.resourceClaims"]),
    ({"spec": {"hostname": "h", "subdomain": "s"}}, ["spec.hostname", "spec.subdomain"]),
    ({"spec": {"restartPolicy": "Always"}}, ["spec.restartPolicy"]),
    ({"spec": {"terminationGracePeriodSeconds": 30}}, ["spec.terminationGracePeriodSeconds"]),
    ({"spec": {"securityContext": {"runAsUser": 7}}}, ["spec.securityContext.runAsUser"]),
    ({"spec": {"containers": [{"name": "training", "image": "x"}]}}, [f"{MAIN}.image"]),
    ({"spec": {"containers": [{"name": "training", "args": ["x"]}]}}, [f"{MAIN}.args"]),
    ({"spec": {"containers": [{"name": "training", "$patch": "delete"}]}}, [MAIN]),
    (
        {"spec": {"containers": [{"name": "training", "env": [{"name": "TRAINSTACK_RUN_ID", "value": "x"}]}]}},
        [f"{MAIN}.env[TRAINSTACK_RUN_ID]"],
    ),
    (
        {"spec": {"containers": [{"name": "training", "env": [{"name": "TRAINSTACK_X", "value": "x"}]}]}},
        [f"{MAIN}.env[TRAINSTACK_X]"],
    ),
    (
        {"spec": {"containers": [{"name": "training", "env": [{"name": "A", "$patch": "delete"}]}]}},
        [f"{MAIN}.env[A]"],
    ),
    (
        {
            "spec": {
                "containers": [{"name": "training", "volumeMounts": [{"name": "x", "mountPath": "/opt/trainstack/a"}]}]
            }
        },
        [f"{MAIN}.volumeMounts[/opt/trainstack/a]"],
    ),
    (
        {"spec": {"containers": [{"name": "training", "volumeMounts": mounting("/mnt/training")}]}},
        [f"{MAIN}.volumeMounts[/mnt/training]"],
    ),
    (
        {"spec": {"containers": [{"name": "training", "lifecycle": {"preStop": {"sleep": {"seconds": 50}}}}]}},
        [f"{MAIN}.lifecycle.preStop"],
    ),
    (
        {"spec": {"containers": [{"name": "training", "lifecycle": {"stopSignal": "SIGKILL"}}]}},
        [f"{MAIN}.lifecycle.stopSignal"],
    ),
    (
        {"spec": {"containers": [{"name": "training", "livenessProbe": {"terminationGracePeriodSeconds": 59}}]}},
        [f"{MAIN}.livenessProbe.terminationGracePeriodSeconds"],
    ),
    (
        {"spec": {"containers": [{"name": "training", "startupProbe": {"terminationGracePeriodSeconds": 0}}]}},
        [f"{MAIN}.startupProbe.terminationGracePeriodSeconds"],
    ),
    ({"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}, ["spec.containers[pytorch]"]),
    ({"spec": {"initContainers": [{"name": "checkout", "image": "x"}]}}, ["spec.initContainers[checkout]"]),
    ({"spec": {"volumes": [{"name": "training", "$patch": "delete"}]}}, ["spec.volumes[training]"]),
    (
        {"spec": {"volumes": [{"name": "trainstack-wrapper", "configMap": {"name": "x"}}]}},
        ["spec.volumes[trainstack-wrapper]"],
    ),
    (
        {"spec": {"volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "other"}}]}},
        ["spec.volumes[x].persistentVolumeClaim"],
    ),
    (
        {"spec": {"volumes": [{"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}},
        ["spec.volumes[x].projected"],
    ),
]


@pytest.mark.parametrize(("patch", "paths"), REFUSED, ids=[paths[0] for _, paths in REFUSED])
def test_a_patch_cannot_change_fields_that_a_run_depends_on(patch: dict[str, Any], paths: list[str]) -> None:
    """Each fault has its path."""
    code = Code(git="https://git.example.org/a.git", revision="1" * 40, mount_path="/code")
    assert refused(patch, env={"A": "b"}, code=code) == paths


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/opt//trainstack/run.py", "is in /opt/trainstack"),
        ("/opt/x/../trainstack/run.py", "is in /opt/trainstack"),
        ("opt/trainstack/run.py", "is in /opt/trainstack"),
        ("/opt/trainstack/", "is a mount path of the settings"),
        ("/opt", "contains /opt/trainstack"),
        ("/mnt/training/", "is a mount path of the settings"),
        ("/mnt//training", "is a mount path of the settings"),
        ("/mnt/training/runs", "is in /mnt/training/runs"),
        ("/mnt/training/runs/train-1", "is in /mnt/training/runs"),
        ("/mnt", "contains /mnt/training/runs"),
    ],
)
def test_mount_paths_are_normalized_before_their_comparison(path: str, problem: str) -> None:
    """A patch cannot mount a volume over the wrapper, a volume of the settings or the records."""
    with pytest.raises(PodPatchError) as error:
        patched({"containers": [{"name": "training", "volumeMounts": mounting(path)}]})
    (fault,) = error.value.faults
    assert (fault.path, fault.problem) == (f"{MAIN}.volumeMounts[{path}]", problem)


@pytest.mark.parametrize("path", ["/mnt/training/runs-of-others", "/mnt/training/cache", "/opt/trainstack2"])
def test_a_patch_may_mount_outside_the_reserved_folders(path: str) -> None:
    """It may do so on a volume of the settings too."""
    (main,) = patched({"containers": [{"name": "training", "volumeMounts": mounting(path)}]})["containers"]
    assert path in {mount["mountPath"] for mount in main["volumeMounts"]}


def test_only_managed_runs_reserve_folders() -> None:
    """Unmanaged runs have neither wrapper nor record."""
    mounts = [*mounting("/opt/trainstack"), *mounting("/mnt/training/runs")]
    spec = {"containers": [{"name": "training", "volumeMounts": mounts}]}
    assert len(patched(spec, managed=False, record=None)["containers"][0]["volumeMounts"]) == 3


def test_a_patch_that_replaces_the_pod_is_refused_at_each_place() -> None:
    """Each form of the directive is refused."""
    assert MAIN in refused({"spec": {"$patch": "replace", "containers": [SIDECAR]}})
    assert MAIN in refused({"$patch": "delete"})
    assert 'metadata.labels["trainstack.dev/run"]' in refused({"metadata": {"$patch": "delete"}})


def test_the_fault_of_a_deleted_main_container_has_the_remedy_to_keep_it() -> None:
    """The remedy does not ask to remove anything else."""
    with pytest.raises(PodPatchError, match=r"removes the main container; keep it, or leave out \$patch$"):
        patched({"containers": [{"name": "training", "$patch": "delete"}]})


def test_a_patch_may_change_how_other_programs_are_stopped() -> None:
    """Programs of unmanaged runs and of added containers; a managed program may only be stopped later."""
    stopping = {"lifecycle": {"preStop": {"sleep": {"seconds": 50}}, "stopSignal": "SIGINT"}}
    early, late = ({"livenessProbe": {"terminationGracePeriodSeconds": seconds}} for seconds in (5, 60))
    spec = {"containers": [{"name": "training", **stopping, **early}]}
    assert patched(spec, managed=False, record=None)["containers"][0]["lifecycle"] == stopping["lifecycle"]
    main = {"name": "training", **late, "lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}
    _, added = patched({"containers": [{**SIDECAR, **stopping, **early}, main]})["containers"]
    assert added["lifecycle"] == stopping["lifecycle"]


def test_a_patch_mounts_scratch_volumes_by_the_names_of_the_settings() -> None:
    """The volumes keep their names in the pod, so that the names of launches stay."""
    run = {"scratch": (Scratch(name="code", mount_path="/code"), Scratch(name="training", mount_path="/tmp/x"))}
    mounts = [{"name": "code", "mountPath": "/a"}, {"name": "training", "mountPath": "/b"}]
    spec = patched(
        {
            "initContainers": [{**SIDECAR, "volumeMounts": mounts}],
            "containers": [{"name": "training", "volumeMounts": [{"name": "code", "mountPath": "/again"}]}],
        },
        **run,
    )
    scratch, claim = "trainstack-scratch-code", "training"
    assert [mount["name"] for mount in spec["initContainers"][0]["volumeMounts"]] == [scratch, claim]
    assert {"name": scratch, "mountPath": "/again"} in spec["containers"][0]["volumeMounts"]
    assert [volume["name"] for volume in spec["volumes"]] == [
        *("training", "trainstack-wrapper", "trainstack-scratch-code", "trainstack-scratch-training")
    ]


def test_a_volume_of_the_patch_precedes_a_scratch_volume_of_its_name() -> None:
    volume = {"name": "code", "configMap": {"name": "a"}}
    mount = {"name": "code", "mountPath": "/a"}
    spec = patched(
        {"volumes": [volume], "containers": [{**SIDECAR, "volumeMounts": [mount]}]},
        scratch=(Scratch(name="code", mount_path="/code"),),
    )
    assert spec["containers"][1]["volumeMounts"] == [mount]


def test_groups_priority_and_the_nodes_ipc_namespace_are_fields_of_the_pod() -> None:
    """The group of the volumes is the user's unless it is set, and an unmanaged run has only what it sets."""
    (template,) = pods(make_run(run_as_user=7, run_as_group=0, fs_group=9, priority_class_name="high", host_ipc=True))
    spec = template["spec"]
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["securityContext"] == {"runAsUser": 7, "runAsGroup": 0, "fsGroup": 9, **context}
    assert (spec["priorityClassName"], spec["hostIPC"]) == ("high", True)
    unmanaged = {"managed": False, "record": None, "security": "baseline"}
    contexts = {
        name: pods(make_run(**unmanaged, **changes))[0]["spec"]["securityContext"]
        for name, changes in {"user": {"run_as_user": 7}, "groups": {"run_as_group": 1, "fs_group": 2}}.items()
    }
    assert contexts == {"user": {"runAsUser": 7}, "groups": {"runAsGroup": 1, "fsGroup": 2}}


def test_variables_come_from_fields_of_the_pod_and_whole_secrets() -> None:
    """Fields are first, so that `env` may refer to them; the API server's defaults are written out."""
    sources = (EnvSource(secret="wandb"), EnvSource(config_map="settings", prefix="APP_"))
    fields = {"NODE": "spec.nodeName", "TEAM": "metadata.labels['team']"}
    (template,) = pods(make_run(field_env=fields, env_from=sources, env={"URL": "http://$(NODE)"}))
    main = template["spec"]["containers"][0]
    assert main["env"][:3] == [
        {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
        {"name": "TEAM", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['team']"}}},
        {"name": "URL", "value": "http://$(NODE)"},
    ]
    assert main["envFrom"] == [
        {"secretRef": {"name": "wandb"}},
        {"configMapRef": {"name": "settings"}, "prefix": "APP_"},
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"field_env": {"NODE": "spec.node"}}, r"'spec\.node' is not one of .*; did you mean spec\.nodeName\?"),
        ({"field_env": {"TEAM": "metadata.labels['a b']"}}, "is not one of"),
        (
            {"field_env": {"A": "metadata.name"}, "env": {"A": "b"}},
            "env and fieldEnv both set A: leave them out of one",
        ),
        ({"env_from": ({"prefix": "A"},)}, "an entry of envFrom needs one source: set either secret or configMap"),
        ({"env_from": ({"secret": "a", "config_map": "b"},)}, "an entry of envFrom needs one source"),
    ],
)
def test_invalid_variables_are_refused(changes: dict[str, Any], message: str) -> None:
    """The API server would refuse them, or one of two values would be lost."""
    with pytest.raises(ValidationError, match=message):
        make_run(**changes)


def test_the_wrapper_keeps_its_variables() -> None:
    """A field of the pod cannot replace them."""
    with pytest.raises(ReservedVariableError, match="env sets TRAINSTACK_POD"):
        pods(make_run(field_env={"TRAINSTACK_POD": "metadata.uid"}))


def test_a_part_of_a_volume_is_mounted_by_its_path() -> None:
    """The record is in the mount of the whole volume: its path is relative to the volume."""
    part = make_mount(mount_path="/datasets", sub_path="datasets/mnist", read_only=True)
    (template,) = pods(make_run(volumes=(part, make_mount())))
    main = template["spec"]["containers"][0]
    mount = {"name": "training", "mountPath": "/datasets", "subPath": "datasets/mnist", "readOnly": True}
    assert main["volumeMounts"][0] == mount
    assert {"name": "TRAINSTACK_RECORD", "value": "/mnt/training/runs"} in main["env"]
    with pytest.raises(WorkloadError, match="does not mount volume training"):
        pods(make_run(volumes=(make_mount(sub_path="runs"),)))


@pytest.mark.parametrize("path", ["/a", "..", "a/../b", ""])
def test_the_path_in_a_volume_does_not_leave_it(path: str) -> None:
    """The API server refuses such a path."""
    with pytest.raises(ValidationError, match=r"is not a path in a volume|at least 1 character"):
        make_mount(sub_path=path)


def test_a_main_container_of_another_name_is_annotated_beside_further_containers() -> None:
    """Commands, and kubectl, find it by the annotation. A launch without further containers keeps its name."""
    (template,) = pods(make_run(container="main", pod_patch={"spec": {"containers": [SIDECAR]}}))
    assert [container["name"] for container in template["spec"]["containers"]] == ["main", "proxy"]
    assert template["metadata"]["annotations"] == {DEFAULT_CONTAINER: "main"}
    assert main_container_name(template) == "main"
    (known,) = pods(make_run(pod_patch={"spec": {"containers": [SIDECAR]}}))
    (alone,) = pods(make_run(container="main", pod_patch={"spec": {"initContainers": [SIDECAR]}}))
    assert "annotations" not in known["metadata"]
    assert "annotations" not in alone["metadata"]


def test_the_annotation_of_the_main_container_cannot_name_another_one() -> None:
    """Neither in a patch nor in the run's annotations."""
    patch = {"spec": {"containers": [SIDECAR]}, "metadata": {"annotations": {DEFAULT_CONTAINER: "proxy"}}}
    path = f'metadata.annotations["{DEFAULT_CONTAINER}"]'
    assert refused(patch, container="main") == [path]
    by_run = {"container": "main", "annotations": {DEFAULT_CONTAINER: "proxy"}}
    assert refused({"spec": {"containers": [SIDECAR]}}, **by_run) == [path]


def test_a_patch_may_extend_the_main_container() -> None:
    """It may add variables, mounts, probes, resources, and a longer grace period."""
    probe = {"exec": {"command": ["true"]}}
    variable = {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    mount = {"name": "extra", "mountPath": "/extra"}
    changes = {
        "env": [variable],
        "volumeMounts": [mount],
        "livenessProbe": probe,
        "resources": {"limits": {"memory": "2048Mi"}},
    }
    spec = patched(
        {
            "containers": [{"name": "training", **changes}],
            "volumes": [{"name": "extra", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 600,
            "tolerations": [{"operator": "Exists"}],
        }
    )
    (main,) = spec["containers"]
    reference = {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.hostIP"}}
    assert {"name": "NODE_IP", "valueFrom": reference} in main["env"]
    assert mount in main["volumeMounts"]
    assert main["livenessProbe"] == probe
    assert main["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert (spec["terminationGracePeriodSeconds"], spec["tolerations"]) == (600, [{"operator": "Exists"}])


def test_only_images_programs_and_variables_of_a_patch_make_another_run() -> None:
    """Every patch makes another launch."""
    before = make_run()
    more_time = make_run(pod_patch={"spec": {"terminationGracePeriodSeconds": 90}})
    with_sidecar = make_run(pod_patch={"spec": {"containers": [SIDECAR]}})
    assert identity(before, PLACEHOLDER_FACTS) == identity(more_time, PLACEHOLDER_FACTS)
    assert identity(with_sidecar, PLACEHOLDER_FACTS)["podPatch"] == {"containers/proxy": {"image": "proxy:1"}}
    volume = {"name": "model", "image": {"reference": "model:1", "pullPolicy": "Always"}}
    with_model = make_run(pod_patch={"spec": {"volumes": [volume]}})
    assert identity(with_model, PLACEHOLDER_FACTS)["podPatch"] == {"volumes/model": {"image": "model:1"}}
    facts = make_launch().facts
    first, second = (plan_launch(run, "dev", facts) for run in (before, more_time))
    assert first.run_id == second.run_id
    assert first.name != second.name


def test_the_names_of_main_containers_are_reserved() -> None:
    """A patch cannot add a container that would be selected as the main container."""
    assert set(MAIN_CONTAINERS) == set(main_container._MAIN_CONTAINERS)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (
            {"fieldRef": {"fieldPath": "spec.nodeName"}},
            {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}},
        ),
        (
            {"resourceFieldRef": {"resource": "limits.cpu"}},
            {"resourceFieldRef": {"divisor": "0", "resource": "limits.cpu"}},
        ),
        (
            {"resourceFieldRef": {"divisor": "1m", "resource": "limits.cpu"}},
            {"resourceFieldRef": {"divisor": "1m", "resource": "limits.cpu"}},
        ),
    ],
)
def test_references_have_the_api_servers_defaults(declared: dict[str, Any], expected: dict[str, Any]) -> None:
    """They are in variables and in files of a volume; without the defaults, server-side apply reports a conflict."""
    files = [{"name": "info", "downwardAPI": {"items": [{"path": "a", **declared}]}}]
    variables = [{"name": "training", "env": [{"name": "A", "valueFrom": declared}]}]
    spec = patched({"containers": variables, "volumes": files})
    assert {"name": "A", "valueFrom": expected} in spec["containers"][0]["env"]
    assert {"name": "info", "downwardAPI": {"items": [{"path": "a", **expected}]}} in spec["volumes"]


def test_a_patch_sets_no_variable_that_trainer_refuses() -> None:
    """Trainer would refuse the TrainJob during `up`. Other kinds and other containers may have them."""
    added = [{"name": name, "value": "1"} for name in ("PET_NNODES", "PET_RDZV_ID")]
    patch = {"spec": {"containers": [{"name": NODE, "env": added}, {**SIDECAR, "env": added}]}}
    with pytest.raises(PodPatchError) as error:
        pods(of_kind("TrainJob", pod_patch=patch))
    (fault,) = error.value.faults
    assert (fault.path, fault.remedy) == ("spec.containers[node].env[PET_NNODES]", "remove it")
    assert pods(of_kind("JobSet", pod_patch={"spec": {"containers": [{"name": "training", "env": added}]}}))


OVERRIDES: dict[str, Any] = {
    "shared_memory": "1Gi",
    "scratch": (Scratch(name="own", mount_path="/own"),),
    "node_selector": {"pool": "cpu"},
    "tolerations": (),
    "affinity": Affinity(),
    "labels": {"part": "launcher"},
    "run_as_user": 7,
    "security": "baseline",
    "capabilities": Capabilities(add=("CHOWN",)),
    "pod_patch": {"spec": {"dnsConfig": {"nameservers": ["1.1.1.1"]}}},
}


def test_a_role_replaces_settings_of_its_run() -> None:
    """The other role has those of the run. Labels of the object are the run's."""
    shared: dict[str, Any] = {
        "shared_memory": "8Gi",
        "scratch": (Scratch(name="cache", mount_path="/cache"),),
        "node_selector": {"pool": "gpu"},
        "tolerations": (Toleration(key="gpu", operator="Exists"),),
        "affinity": Affinity.model_validate(AFFINITY),
        "labels": {"team": "a"},
        "run_as_user": 1000,
        "capabilities": Capabilities(add=("IPC_LOCK",)),
        "pod_patch": {"spec": {"runtimeClassName": "nvidia"}},
    }
    roles = {"Master": Role(**OVERRIDES), "Worker": Role()}
    run = of_kind("PyTorchJob", roles=roles, managed=False, **shared)
    master, worker = pods(run)
    spec, main = master["spec"], master["spec"]["containers"][0]
    assert {key: spec[key] for key in ("nodeSelector", "dnsConfig", "securityContext")} == {
        "nodeSelector": {"pool": "cpu"},
        "dnsConfig": {"nameservers": ["1.1.1.1"]},
        "securityContext": {"runAsUser": 7},
    }
    assert spec.keys().isdisjoint({"tolerations", "affinity", "runtimeClassName"})
    assert main["securityContext"] == {"capabilities": {"add": ["CHOWN"]}}
    assert [volume["name"] for volume in spec["volumes"][1:]] == ["trainstack-shared-memory", "trainstack-scratch-own"]
    assert spec["volumes"][1]["emptyDir"]["sizeLimit"] == "1Gi"
    assert (master["metadata"]["labels"]["part"], worker["metadata"]["labels"]["team"]) == ("launcher", "a")
    assert "team" not in master["metadata"]["labels"]
    assert worker == pods(of_kind("PyTorchJob", managed=False, **shared))[1]
    assert manifest(run, "dev", make_launch())["metadata"]["labels"]["team"] == "a"


@pytest.mark.parametrize("field", OVERRIDES)
def test_the_nodes_of_a_trainjob_are_equal(field: str) -> None:
    """A TrainJob has one template, so a setting of one role would be lost."""
    roles = {"Master": Role(), "Worker": Role(**{field: OVERRIDES[field]})}
    run = of_kind("TrainJob", roles=roles, tolerations=(Toleration(operator="Exists"),))
    assert [unsupported.path for unsupported in unsupported_settings(run)] == [f"roles.Worker.{to_camel(field)}"]


def test_the_programs_of_a_roles_patch_make_another_run() -> None:
    """It does not matter whether all roles or their run have the patch."""

    def identity_of(**changes: Any) -> Any:
        return identity(of_kind("PyTorchJob", **changes), PLACEHOLDER_FACTS)

    patch = {"spec": {"containers": [SIDECAR]}}
    worker_only = identity_of(roles={"Master": Role(), "Worker": Role(pod_patch=patch)})
    assert worker_only["podPatches"] == {"Master": {}, "Worker": {"containers/proxy": {"image": "proxy:1"}}}
    everywhere = {"Master": Role(pod_patch=patch), "Worker": Role(pod_patch=patch)}
    assert identity_of(roles=everywhere) == identity_of(pod_patch=patch)
    nowhere = {"Master": Role(pod_patch={}), "Worker": Role(pod_patch={})}
    assert identity_of(roles=nowhere, pod_patch=patch) == identity_of()


def test_all_roles_of_a_distributed_run_are_patched() -> None:
    run = make_distributed(pod_patch={"spec": {"schedulerName": "other"}})
    assert [template["spec"]["schedulerName"] for template in pods(run)] == ["other", "other"]


@pytest.mark.parametrize("make", [make_planned, make_indexed])
def test_trials_have_the_fields_of_their_run(make: Callable[..., PlannedSweep]) -> None:
    """The trials are separate objects, or one Indexed Job."""
    run = make_run(name="search", scratch=(Scratch(name="a", mount_path="/a"),), pod_patch={"spec": {"hostPID": True}})
    bodies = [body for body in first_launches(make(run=run)).manifests if body["kind"] == "Job"]
    assert bodies
    for body in bodies:
        spec = body["spec"]["template"]["spec"]
        assert spec["hostPID"] is True
        assert "trainstack-scratch-a" in {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize(
    ("model", "values", "message"),
    [
        (Scratch, {"name": "a", "mountPath": "/a", "storageClass": "x"}, "needs a size: set size"),
        (
            Scratch,
            {"name": "a", "mountPath": "/a", "size": "1Gi", "storageClass": "x", "medium": "Memory"},
            "has no medium: leave out medium or storageClass",
        ),
        (Capabilities, {"add": ("IPC_LOK",)}, "did you mean IPC_LOCK?"),
        (Capabilities, {"add": ("KILL",), "drop": ("KILL",)}, "both list KILL: leave them out of one"),
        (
            Affinity,
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ({},)}}},
            "an empty term matches no node: add matchExpressions",
        ),
    ],
)
def test_settings_that_the_cluster_would_refuse_are_refused(model: Any, values: dict[str, Any], message: str) -> None:
    """The error has the remedy."""
    with pytest.raises(ValidationError) as error:
        model.model_validate(values)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("operator", "values", "message"),
    [
        ("In", (), "operator In needs values: add values"),
        ("Exists", ("a",), "operator Exists takes no values (got a): leave out values, or write In"),
        ("Gt", ("a",), "operator Gt compares with one integer of at most 64 bits: write one number in quotes"),
        ("Gt", (str(2**63),), "operator Gt compares with one integer of at most 64 bits: write one number in quotes"),
        ("Lt", ("1", "2"), "operator Lt compares with one integer of at most 64 bits: write one number in quotes"),
    ],
)
def test_the_values_of_affinity_operators_are_validated(operator: str, values: tuple[str, ...], message: str) -> None:
    """The rules are those of the API server."""
    expression = {"key": "a", "operator": operator, "values": values}
    required = {"nodeSelectorTerms": ({"matchExpressions": (expression,)},)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    with pytest.raises(ValidationError) as error:
        Affinity.model_validate(affinity)
    assert message in str(error.value)


def test_a_restricted_run_drops_all_capabilities_already() -> None:
    """Names of scratch volumes are unique."""
    with pytest.raises(ValidationError, match=r"leave out capabilities\.drop"):
        make_run(capabilities=Capabilities(drop=("KILL",)))
    with pytest.raises(ValidationError, match="several entries named a: use unique names"):
        make_run(scratch=tuple(Scratch(name="a", mount_path=path) for path in ("/a", "/b")))
