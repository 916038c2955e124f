"""What people made by hand, as settings that say exactly the same."""

from dataclasses import replace
from typing import Any

from tests.unit.make import make_settings
from trainstack.onboarding.adopt.entries import (
    CLUSTER_QUEUE,
    COHORT,
    PERSISTENT_VOLUME,
    PROVISIONING_REQUEST_CONFIG,
    TOPOLOGY,
    Kind,
    unexpressed,
)
from trainstack.onboarding.adopt.entries import (
    FLAVOR as FLAVOR_KIND,
)
from trainstack.onboarding.adopt.found import Found, Operator
from trainstack.onboarding.adopt.plan import adopt, operators
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import PriorityClass, Queues
from trainstack.settings.sections.storage import Storage

KUEUE = "kueue.x-k8s.io/v1beta2"


def make_live(api: str, kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    """An object as the API server gives it."""
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **place, "uid": "1"}, **rest}


def make_claim(name: str = "data", **spec: Any) -> dict[str, Any]:
    """A bound claim of the class `fast`."""
    base = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        "volumeName": "pvc-1",
    }
    return make_live("v1", "PersistentVolumeClaim", name, "vision", spec={**base, **spec}, status={"phase": "Bound"})


def make_queue(name: str = "gpu", **spec: Any) -> dict[str, Any]:
    """A cluster queue as Kueue has completed it."""
    resources = [{"name": "cpu", "nominalQuota": "1"}]
    base = {
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "namespaceSelector": {},
        "preemption": {
            "borrowWithinCohort": {"policy": "Never"},
            "reclaimWithinCohort": "Never",
            "withinClusterQueue": "Never",
        },
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "gpu", "resources": resources}]}],
        "stopPolicy": "None",
    }
    return make_live(KUEUE, "ClusterQueue", name, spec={**base, **spec})


def make_local_queue(queue: str = "gpu") -> dict[str, Any]:
    """The namespace's queue."""
    return make_live(KUEUE, "LocalQueue", "q", "vision", spec={"clusterQueue": queue, "stopPolicy": "None"})


FLAVOR = make_live(KUEUE, "ResourceFlavor", "gpu", spec={"nodeLabels": {"gpu": "a100"}})
CLASS = make_live(
    "storage.k8s.io/v1",
    "StorageClass",
    "fast",
    provisioner="csi.example.org",
    reclaimPolicy="Delete",
    volumeBindingMode="Immediate",
)


def make_empty(**changes: Any) -> Settings:
    """An environment that declares nothing yet."""
    return make_settings(
        **{"environment": Environment(), "storage": Storage(), "queues": Queues(), "operators": Operators(), **changes}
    )


def entries(settings: Settings, found: Found, *shared: str) -> list[tuple[str, object]]:
    """What would be added, by the list of the file."""
    return [(".".join(each.path), each.value) for each in adopt(settings, found, shared).entries]


def left(settings: Settings, found: Found) -> dict[str, str]:
    """What stays others', with the reason."""
    return adopt(settings, found).left


def fields(kind: Kind, live: dict[str, Any]) -> list[str]:
    """What the object's element would not say."""
    return unexpressed(kind, kind.element(live), live, "lab")


def test_a_whole_namespace_becomes_settings() -> None:
    """Volumes, their class, and the queue with the chain below it: what is usual is not written out."""
    found = Found(
        namespace="vision",
        claims=(make_claim(),),
        classes=(CLASS,),
        local_queues=(make_local_queue(),),
        cluster_queues=(make_queue(cohortName="lab"), make_queue("others")),
        flavors=(FLAVOR, make_live(KUEUE, "ResourceFlavor", "unused", spec={})),
        cohorts=(make_live(KUEUE, "Cohort", "lab", spec={"parentName": "all"}),),
        priority_classes=(make_live(KUEUE, "WorkloadPriorityClass", "urgent", value=5),),
    )
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "gpu", "resources": [{"name": "cpu", "nominalQuota": "1"}]}],
    }
    storage_class = {"provisioner": "csi.example.org", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    claim = {"storageClass": "fast", "size": "1Gi", "accessModes": ["ReadWriteMany"]}
    assert entries(make_empty(), found) == [
        ("environment.existing.namespaces", "vision"),
        ("storage.classes", {"name": "fast", **storage_class, "adopt": True}),
        ("queues.priorityClasses", {"name": "urgent", "value": 5, "adopt": True}),
        ("queues.flavors", {"name": "gpu", "nodeLabels": {"gpu": "a100"}, "adopt": True}),
        ("queues.cohorts", {"name": "all"}),
        ("queues.cohorts", {"name": "lab", "parent": "all", "adopt": True}),
        ("queues.clusterQueues", {"name": "gpu", "cohort": "lab", "resourceGroups": [group], "adopt": True}),
        ("queues.localQueues", {"name": "q", "namespace": "vision", "clusterQueue": "gpu", "adopt": True}),
        ("storage.volumes", {"name": "data", "namespace": "vision", **claim, "adopt": True}),
    ]
    assert adopt(make_empty(), found).notes == [
        "cohort all has no object; `up` creates an empty one, which has no effect"
    ]


def test_each_half_takes_what_it_holds() -> None:
    """A team takes its claims and names the class; a platform takes all the others."""
    found = Found(namespace="vision", claims=(make_claim(),), classes=(CLASS,), local_queues=(make_local_queue(),))
    team = make_empty(environment=Environment(profile="tenant", layers=("training",)))
    assert [path for path, _ in entries(team, found)] == [
        "environment.existing.namespaces",
        "storage.volumes",
        "environment.existing.storageClasses",
    ]
    platform = make_empty(environment=Environment(layers=("platform",), existing=Existing(namespaces=("vision",))))
    assert [path for path, _ in entries(platform, found)] == ["storage.classes"]


def test_a_class_that_others_use_is_only_named() -> None:
    """Or may use, where that is not known, or that is the default: one team does not take it from the others."""
    other = make_claim()
    other["metadata"]["namespace"] = "audio"
    shared = Found(namespace="vision", claims=(make_claim(),), classes=(CLASS,), foreign_claims=(other,))
    named = ("environment.existing.storageClasses", "fast")
    assert left(make_empty(), shared) == {
        "StorageClass fast": "is used by claims of other namespaces; it is only referenced"
    }
    assert named in entries(make_empty(), shared)
    unknown = Found(namespace="vision", claims=(make_claim(),), classes=(CLASS,), foreign_claims=None)
    assert left(make_empty(), unknown) == {
        "StorageClass fast": "may be used by claims of other namespaces, which may not be read; it is only referenced"
    }
    assert named in entries(make_empty(), unknown)
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    usual = {**CLASS, "metadata": {**CLASS["metadata"], "annotations": default}}
    found = Found(namespace="vision", claims=(make_claim(),), classes=(usual,))
    assert left(make_empty(), found) == {"StorageClass fast": "is the cluster's default; it is only referenced"}


def test_what_the_settings_cannot_say_is_left_with_the_field() -> None:
    """And with it what stands on it; nothing is taken over that would change by it."""
    found = Found(
        namespace="vision",
        local_queues=(make_local_queue(),),
        cluster_queues=(make_queue(concurrentAdmission={"policy": "x"}),),
        flavors=(FLAVOR,),
        claims=(
            make_claim(dataSource={"kind": "VolumeSnapshot", "name": "s"}),
            make_claim("bare", storageClassName=""),
        ),
    )
    assert left(make_empty(), found) == {
        "ClusterQueue gpu": "cannot be expressed in the settings: spec.concurrentAdmission.policy",
        "LocalQueue vision/q": "refers to cluster queue gpu, which test does not declare",
        "PersistentVolumeClaim vision/data": (
            "cannot be expressed in the settings: spec.dataSource.kind, spec.dataSource.name"
        ),
        "PersistentVolumeClaim vision/bare": ("cannot be expressed in the settings: storageClass (value '')"),
    }
    assert [path for path, _ in entries(make_empty(), found)] == ["environment.existing.namespaces"]


def test_what_stands_on_something_that_is_not_there_is_left_with_all_above_it() -> None:
    """A queue whose flavor nobody has made: no cohort is made for it either."""
    found = Found(
        namespace="default", local_queues=(make_local_queue(),), cluster_queues=(make_queue(cohortName="lab"),)
    )
    assert left(make_empty(), found) == {
        "ClusterQueue gpu": "refers to flavor gpu, which test does not declare",
        "LocalQueue vision/q": "refers to cluster queue gpu, which test does not declare",
    }
    assert entries(make_empty(), found) == []


def test_what_says_nothing_is_left_with_a_reason() -> None:
    """The API server accepts a queue without a spec, and an old claim without a class."""
    nothing: tuple[dict[str, Any], ...] = ({"spec": {}}, {}, {"spec": None})
    for spec in nothing:
        local = make_live(KUEUE, "LocalQueue", "q", "vision", **spec)
        cluster = make_live(KUEUE, "ClusterQueue", "gpu", **spec)
        found = Found(namespace="default", local_queues=(local,), cluster_queues=(cluster,))
        assert left(make_empty(), found) == {
            "LocalQueue vision/q": "cannot be expressed in the settings: clusterQueue is missing"
        }
        used = Found(namespace="default", local_queues=(make_local_queue(),), cluster_queues=(cluster,))
        assert left(make_empty(), used) == {
            "ClusterQueue gpu": "cannot be expressed in the settings: resourceGroups is missing",
            "LocalQueue vision/q": "refers to cluster queue gpu, which test does not declare",
        }


def test_a_declared_claim_without_a_class_is_left_as_declared() -> None:
    """No class is named for it."""
    ours = make_claim("training", storageClassName=None)
    for spec in (ours["spec"], {key: each for key, each in ours["spec"].items() if key != "storageClassName"}):
        live = {**ours, "metadata": {**ours["metadata"], "namespace": "research"}, "spec": spec}
        done = adopt(make_settings(), Found(namespace="research", claims=(live,)))
        assert done.left == {"PersistentVolumeClaim research/training": "is declared by test already"}
        assert done.entries == []


def test_a_queue_for_no_namespace_is_not_one_for_all() -> None:
    """No selector selects none, and an empty one selects every namespace."""
    nobody = make_queue()
    del nobody["spec"]["namespaceSelector"]
    assert fields(CLUSTER_QUEUE, make_queue()) == []
    assert fields(CLUSTER_QUEUE, nobody) == ["spec.namespaceSelector"]
    by_name = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["vision"]}
    assert fields(CLUSTER_QUEUE, make_queue(namespaceSelector={"matchExpressions": [by_name]})) == []
    by_label = {"matchLabels": {"team": "vision"}}
    assert fields(CLUSTER_QUEUE, make_queue(namespaceSelector=by_label)) == ["spec.namespaceSelector.matchLabels.team"]


def test_a_queue_that_evicts_to_borrow_keeps_that() -> None:
    """What differs from Kueue's defaults becomes settings; a preference without a comparison is left."""
    preemption = {"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100}}
    usual = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    fungibility = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}
    live = make_queue(preemption={**usual, **preemption}, flavorFungibility=fungibility)
    element = CLUSTER_QUEUE.element(live)
    assert (element["preemption"], element["flavorFungibility"]) == ({**usual, **preemption}, fungibility)
    assert unexpressed(CLUSTER_QUEUE, element, live, "lab") == []
    preference = {"preference": "PreemptionOverBorrowing"}
    assert fields(CLUSTER_QUEUE, make_queue(flavorFungibility={**fungibility, **preference})) == []
    useless = make_queue(flavorFungibility={"whenCanBorrow": "MayStopSearch", **preference})
    assert [field.partition(" ")[0] for field in fields(CLUSTER_QUEUE, useless)] == ["flavorFungibility"]


def test_a_queue_with_checks_shares_and_a_topology_is_taken_over_with_what_it_refers_to() -> None:
    """The parameters before the check, the topology before the flavor; without one of them the queue is left."""
    check = {"controllerName": "kueue.x-k8s.io/multikueue"}
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "workers"}
    source = {"kubeConfig": {"location": "west", "locationType": "Secret"}}
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    shares: dict[str, Any] = {"fairSharing": {"weight": "2"}, "admissionScope": scope}
    checks = [{"name": "elsewhere", "onFlavors": ["gpu"]}]
    passed: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": checks}}
    found = Found(
        namespace="vision",
        local_queues=(make_local_queue(),),
        cluster_queues=(make_queue(**shares, **passed),),
        flavors=(
            make_live(KUEUE, "ResourceFlavor", "gpu", spec={"nodeLabels": {"gpu": "a"}, "topologyName": "racks"}),
        ),
        topologies=(make_live(KUEUE, "Topology", "racks", spec={"levels": [{"nodeLabel": "rack"}]}),),
        admission_checks=(make_live(KUEUE, "AdmissionCheck", "elsewhere", spec={**check, "parameters": parameters}),),
        multi_kueue_configs=(make_live(KUEUE, "MultiKueueConfig", "workers", spec={"clusters": ["west"]}),),
        multi_kueue_clusters=(make_live(KUEUE, "MultiKueueCluster", "west", spec={"clusterSource": source}),),
    )
    taken = dict(entries(make_empty(), found))
    assert taken["queues.topologies"] == {"name": "racks", "levels": ["rack"], "adopt": True}
    assert taken["queues.multiKueueClusters"] == {"name": "west", **source, "adopt": True}
    assert taken["queues.multiKueueConfigs"] == {"name": "workers", "clusters": ["west"], "adopt": True}
    assert taken["queues.admissionChecks"] == {"name": "elsewhere", **check, "parameters": parameters, "adopt": True}
    queue = taken["queues.clusterQueues"]
    assert isinstance(queue, dict)
    assert {key: queue[key] for key in ("admissionChecks", "fairSharing", "admissionScope")} == {
        "admissionChecks": checks,
        **shares,
    }
    assert left(make_empty(), replace(found, multi_kueue_clusters=(), topologies=())) == {
        "ResourceFlavor gpu": "refers to topology racks, which test does not declare",
        "MultiKueueConfig workers": "refers to cluster west, which test does not declare",
        "AdmissionCheck elsewhere": "refers to MultiKueueConfig workers, which test does not declare",
        "ClusterQueue gpu": "refers to flavor gpu, which test does not declare",
        "LocalQueue vision/q": "refers to cluster queue gpu, which test does not declare",
    }


def test_a_provisioning_request_is_taken_over_with_what_is_not_the_default() -> None:
    retries = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    spec = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "retryStrategy": retries}
    assert fields(PROVISIONING_REQUEST_CONFIG, make_live(KUEUE, "ProvisioningRequestConfig", "nodes", spec=spec)) == []
    given = {**spec, "retryStrategy": {**retries, "backoffLimitCount": 0}, "parameters": {"a": "b"}}
    live = make_live(KUEUE, "ProvisioningRequestConfig", "nodes", spec=given)
    assert PROVISIONING_REQUEST_CONFIG.element(live)["retryStrategy"]["backoffLimitCount"] == 0
    assert fields(PROVISIONING_REQUEST_CONFIG, live) == []


def test_what_has_no_spec_is_left_with_what_is_missing() -> None:
    """Kueue's definitions do not require a spec."""
    assert fields(TOPOLOGY, make_live(KUEUE, "Topology", "racks")) == ["levels is missing"]


def test_quantities_are_the_same_in_any_spelling() -> None:
    """The API server keeps what was written in a Cohort or LocalQueue, and gives a weight the default 1, an integer."""
    for weight in (1, 2, "1e3", "1000m"):
        assert fields(COHORT, make_live(KUEUE, "Cohort", "lab", spec={"fairSharing": {"weight": weight}})) == []
    quotas = [{"name": "cpu", "nominalQuota": 5, "lendingLimit": "1000m"}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "gpu", "resources": quotas}]}]
    assert fields(COHORT, make_live(KUEUE, "Cohort", "lab", spec={"resourceGroups": groups})) == []
    labels = {"weight": "heavy", "nominalQuota": "1000m"}
    assert fields(FLAVOR_KIND, make_live(KUEUE, "ResourceFlavor", "gpu", spec={"nodeLabels": labels})) == []


def make_volume(name: str = "pv", **changes: Any) -> dict[str, Any]:
    """A volume on a folder, of the class `fast` and held by nobody."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data", "type": ""},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
    }
    return make_live("v1", "PersistentVolume", name, spec={**spec, **changes})


def test_a_volume_on_a_host_keeps_its_kind() -> None:
    """Made without a type, on one node or on every one; another reclaim policy or source is left."""
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
    assert fields(PERSISTENT_VOLUME, make_volume(claimRef={"name": "x"})) == []
    assert fields(PERSISTENT_VOLUME, make_volume(nodeAffinity={"required": {"nodeSelectorTerms": [here]}})) == []
    assert fields(PERSISTENT_VOLUME, make_volume(persistentVolumeReclaimPolicy="Delete")) == [
        "spec.persistentVolumeReclaimPolicy"
    ]
    assert fields(PERSISTENT_VOLUME, make_volume(hostPath=None, nfs={"server": "s"})) == ["hostPath is missing"]


def volumes_taken(claim: dict[str, Any], *volumes: dict[str, Any]) -> list[str]:
    """The volumes that are taken over with the claim."""
    taken = adopt(make_empty(), Found(namespace="vision", claims=(claim,), persistent_volumes=volumes)).taken
    return [each.removeprefix("PersistentVolume ") for each in taken if each.startswith("PersistentVolume ")]


def test_a_free_volume_is_taken_only_where_the_claim_names_it() -> None:
    """By a selector, and if it fits; another one of the class may be any team's."""
    labels = {"for": "models"}

    def labelled(name: str, **changes: Any) -> dict[str, Any]:
        live = make_volume(name, **changes)
        return {**live, "metadata": {**live["metadata"], "labels": labels}}

    free = (
        make_volume("plain"),
        labelled("fits"),
        labelled("small", capacity={"storage": "1Mi"}),
        labelled("once", accessModes=["ReadWriteOnce"]),
        labelled("of-another-class", storageClassName="slow"),
        labelled("held", claimRef={"namespace": "audio", "name": "data", "uid": "2"}),
    )
    assert volumes_taken(make_claim(volumeName=None), *free) == []
    assert volumes_taken(make_claim(volumeName=None, selector={"matchLabels": labels}), *free) == ["fits"]
    expression = {"key": "disk", "operator": "Exists"}
    chosen = {"matchLabels": labels, "matchExpressions": [expression]}
    assert volumes_taken(make_claim(volumeName=None, selector=chosen), *free) == []


def test_a_volume_that_is_kept_for_a_claim_is_taken_with_it() -> None:
    """Bound, or kept by hand; not one that was an earlier claim's of that name, or another namespace's."""
    own = {"namespace": "vision", "name": "data"}
    held = (
        make_volume("bound", claimRef={**own, "uid": "1"}),
        make_volume("kept", claimRef=own),
        make_volume("released", claimRef={**own, "uid": "0"}),
        make_volume("pvc-1", claimRef={**own, "namespace": "audio"}),
    )
    assert volumes_taken(make_claim(), *held) == ["bound", "kept"]


def test_what_is_not_by_hand_is_left_to_its_owner() -> None:
    """Another stack's, another tool's, a controller's, or declared here already."""

    def held(**metadata: Any) -> dict[str, Any]:
        live = make_claim()
        return {**live, "metadata": {**live["metadata"], **metadata}}

    reasons = {
        "belongs to stack 'other'": held(labels={"trainstack.dev/stack": "other"}),
        "is managed by Helm, which would overwrite it": held(labels={"app.kubernetes.io/managed-by": "Helm"}),
        "is managed by Flux, which would overwrite it": held(labels={"kustomize.toolkit.fluxcd.io/name": "x"}),
        "is managed by Argo CD, which would overwrite it": held(
            annotations={"argocd.argoproj.io/tracking-id": "x:/PersistentVolumeClaim:vision/data"}
        ),
        "belongs to StatefulSet db": held(ownerReferences=[{"kind": "StatefulSet", "name": "db"}]),
        "is being deleted": held(deletionTimestamp="2026-01-01T00:00:00Z"),
    }
    for reason, claim in reasons.items():
        assert left(make_empty(), Found(namespace="vision", claims=(claim,))) == {
            "PersistentVolumeClaim vision/data": reason
        }
    ours = held(name="training", namespace="research")
    assert left(make_settings(), Found(namespace="research", claims=(ours,))) == {
        "PersistentVolumeClaim research/training": "is declared by test already"
    }


def test_a_priority_of_the_shared_defaults_is_taken_as_it_is() -> None:
    """The environment's own file overrides what defaults.yaml says of it."""
    settings = make_empty(queues=Queues(priority_classes=(PriorityClass(name="normal", value=1, description="x"),)))
    live = make_live(KUEUE, "WorkloadPriorityClass", "normal", value=7)
    found = Found(namespace="default", priority_classes=(live,))
    assert entries(settings, found, "normal") == [
        ("queues.priorityClasses", {"name": "normal", "value": 7, "adopt": True, "description": ""})
    ]
    assert adopt(settings, found).left == {"WorkloadPriorityClass normal": "is declared by test already"}


def test_operators_are_named_with_version_and_place() -> None:
    """They stay their installer's."""
    found = Found(namespace="vision", operators=(Operator(name="Kueue", namespace="kueue-system", version="v0.15.2"),))
    assert list(operators(found)) == ["Kueue v0.15.2 in namespace kueue-system"]
