"""Adoption turns objects that people created by hand into equivalent settings."""

from dataclasses import replace
from typing import Any

from tests.unit.make import make_settings
from trainstack.onboarding.adopt.entries import (
    CLUSTER_QUEUE,
    COHORT,
    PERSISTENT_VOLUME,
    PROVISIONING_REQUEST_CONFIG,
    TOPOLOGY,
    KindConversion,
    find_unexpressed_fields,
)
from trainstack.onboarding.adopt.entries import (
    FLAVOR as FLAVOR_KIND,
)
from trainstack.onboarding.adopt.namespace_objects import InstalledOperator, NamespaceObjects
from trainstack.onboarding.adopt.plan import describe_operators, plan_adoption
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import PriorityClass, Queues
from trainstack.settings.sections.storage import Storage

KUEUE = "kueue.x-k8s.io/v1beta2"


def make_live(api: str, kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    """Return an object as the API server returns it."""
    scope = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **scope, "uid": "1"}, **rest}


def make_claim(name: str = "data", **spec: Any) -> dict[str, Any]:
    """Return a bound claim of the class `fast`."""
    base = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        "volumeName": "pvc-1",
    }
    return make_live("v1", "PersistentVolumeClaim", name, "vision", spec={**base, **spec}, status={"phase": "Bound"})


def make_queue(name: str = "gpu", **spec: Any) -> dict[str, Any]:
    """Return a cluster queue with Kueue's defaults."""
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
    """Return the namespace's local queue."""
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
    """Return an environment that declares nothing yet."""
    return make_settings(
        **{"environment": Environment(), "storage": Storage(), "queues": Queues(), "operators": Operators(), **changes}
    )


def entries(settings: Settings, found: NamespaceObjects, *shared: str) -> list[tuple[str, object]]:
    """Return the entries that adoption adds, with the path of the list in the file."""
    return [(".".join(entry.path), entry.value) for entry in plan_adoption(settings, found, shared).entries]


def left(settings: Settings, found: NamespaceObjects) -> dict[str, str]:
    """Return the objects that are not adopted, with the reasons."""
    return plan_adoption(settings, found).reasons_by_object


def fields(kind: KindConversion, live: dict[str, Any]) -> list[str]:
    """Return the fields that the object's settings cannot express."""
    return find_unexpressed_fields(kind, kind.build_element(live), live, "lab")


def test_a_whole_namespace_becomes_settings() -> None:
    """Volumes, their class, and the queue with everything that it refers to; defaults are left out."""
    found = NamespaceObjects(
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
    assert plan_adoption(make_empty(), found).notes == [
        "cohort all has no object; `up` creates an empty one, which has no effect"
    ]


def test_each_layer_adopts_its_own_objects() -> None:
    """A team adopts its claims and only references the class; a platform adopts everything else."""
    found = NamespaceObjects(
        namespace="vision", claims=(make_claim(),), classes=(CLASS,), local_queues=(make_local_queue(),)
    )
    team = make_empty(environment=Environment(profile="tenant", layers=("training",)))
    assert [path for path, _ in entries(team, found)] == [
        "environment.existing.namespaces",
        "storage.volumes",
        "environment.existing.storageClasses",
    ]
    platform = make_empty(environment=Environment(layers=("platform",), existing=Existing(namespaces=("vision",))))
    assert [path for path, _ in entries(platform, found)] == ["storage.classes"]


def test_a_class_that_others_use_is_only_referenced() -> None:
    """The same holds if other namespaces may use the class, or if it is the cluster's default."""
    other = make_claim()
    other["metadata"]["namespace"] = "audio"
    shared = NamespaceObjects(namespace="vision", claims=(make_claim(),), classes=(CLASS,), foreign_claims=(other,))
    reference = ("environment.existing.storageClasses", "fast")
    assert left(make_empty(), shared) == {
        "StorageClass fast": "is used by claims of other namespaces; it is only referenced"
    }
    assert reference in entries(make_empty(), shared)
    unknown = NamespaceObjects(namespace="vision", claims=(make_claim(),), classes=(CLASS,), foreign_claims=None)
    assert left(make_empty(), unknown) == {
        "StorageClass fast": "may be used by claims of other namespaces, which may not be read; it is only referenced"
    }
    assert reference in entries(make_empty(), unknown)
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    default_class = {**CLASS, "metadata": {**CLASS["metadata"], "annotations": default}}
    found = NamespaceObjects(namespace="vision", claims=(make_claim(),), classes=(default_class,))
    assert left(make_empty(), found) == {"StorageClass fast": "is the cluster's default; it is only referenced"}


def test_an_object_with_an_inexpressible_field_is_not_adopted() -> None:
    """The reason names the field. An object that refers to it is not adopted either."""
    found = NamespaceObjects(
        namespace="vision",
        local_queues=(make_local_queue(),),
        cluster_queues=(make_queue(concurrentAdmission={"policy": "x"}),),
        flavors=(FLAVOR,),
        claims=(make_claim(volumeMode="Block"),),
    )
    assert left(make_empty(), found) == {
        "ClusterQueue gpu": "cannot be expressed in the settings: spec.concurrentAdmission.policy",
        "LocalQueue vision/q": "refers to cluster queue gpu, which test does not declare",
        "PersistentVolumeClaim vision/data": "cannot be expressed in the settings: spec.volumeMode",
    }
    assert [path for path, _ in entries(make_empty(), found)] == ["environment.existing.namespaces"]


def test_a_queue_whose_flavor_is_missing_is_not_adopted() -> None:
    """Its local queue is not adopted either, and no cohort is declared for it."""
    found = NamespaceObjects(
        namespace="default", local_queues=(make_local_queue(),), cluster_queues=(make_queue(cohortName="lab"),)
    )
    assert left(make_empty(), found) == {
        "ClusterQueue gpu": "refers to flavor gpu, which test does not declare",
        "LocalQueue vision/q": "refers to cluster queue gpu, which test does not declare",
    }
    assert entries(make_empty(), found) == []


def test_a_queue_without_a_spec_is_not_adopted() -> None:
    """The API server accepts a queue without a spec. The reason names the missing field."""
    empty: tuple[dict[str, Any], ...] = ({"spec": {}}, {}, {"spec": None})
    for spec in empty:
        local = make_live(KUEUE, "LocalQueue", "q", "vision", **spec)
        cluster = make_live(KUEUE, "ClusterQueue", "gpu", **spec)
        found = NamespaceObjects(namespace="default", local_queues=(local,), cluster_queues=(cluster,))
        assert left(make_empty(), found) == {
            "LocalQueue vision/q": "cannot be expressed in the settings: clusterQueue is missing"
        }
        used = NamespaceObjects(namespace="default", local_queues=(make_local_queue(),), cluster_queues=(cluster,))
        assert left(make_empty(), used) == {
            "ClusterQueue gpu": "cannot be expressed in the settings: resourceGroups is missing",
            "LocalQueue vision/q": "refers to cluster queue gpu, which test does not declare",
        }


def test_a_declared_claim_without_a_class_is_not_adopted_again() -> None:
    """No class is referenced for it."""
    claim = make_claim("training", storageClassName=None)
    for spec in (claim["spec"], {key: value for key, value in claim["spec"].items() if key != "storageClassName"}):
        live = {**claim, "metadata": {**claim["metadata"], "namespace": "research"}, "spec": spec}
        adoption = plan_adoption(make_settings(), NamespaceObjects(namespace="research", claims=(live,)))
        assert adoption.reasons_by_object == {"PersistentVolumeClaim research/training": "is declared by test already"}
        assert adoption.entries == []


def test_a_queue_without_a_namespace_selector_is_not_open_to_all() -> None:
    """A missing selector selects no namespace, an empty one selects every namespace."""
    closed = make_queue()
    del closed["spec"]["namespaceSelector"]
    assert fields(CLUSTER_QUEUE, make_queue()) == []
    assert fields(CLUSTER_QUEUE, closed) == []
    assert CLUSTER_QUEUE.build_element(closed)["namespaces"] == []
    assert "namespaces" not in CLUSTER_QUEUE.build_element(make_queue())
    by_name = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["vision"]}
    assert fields(CLUSTER_QUEUE, make_queue(namespaceSelector={"matchExpressions": [by_name]})) == []
    by_label = {"matchLabels": {"team": "vision"}}
    assert fields(CLUSTER_QUEUE, make_queue(namespaceSelector=by_label)) == ["spec.namespaceSelector.matchLabels.team"]


def test_a_selector_of_one_namespace_may_be_a_label_or_an_expression() -> None:
    """Kueue's examples have both. With other labels, the selector is not expressible."""
    name = {"kubernetes.io/metadata.name": "vision"}
    queue = make_queue(namespaceSelector={"matchLabels": name})
    assert fields(CLUSTER_QUEUE, queue) == []
    assert CLUSTER_QUEUE.build_element(queue)["namespaces"] == ["vision"]
    two_labels = make_queue(namespaceSelector={"matchLabels": {**name, "team": "vision"}})
    assert fields(CLUSTER_QUEUE, two_labels) != []


def test_preemption_and_fungibility_of_a_queue_become_settings() -> None:
    """Values that differ from Kueue's defaults become settings. A preference without effect is not expressible."""
    preemption = {"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100}}
    policies = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    fungibility = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}
    live = make_queue(preemption={**policies, **preemption}, flavorFungibility=fungibility)
    element = CLUSTER_QUEUE.build_element(live)
    assert (element["preemption"], element["flavorFungibility"]) == ({**policies, **preemption}, fungibility)
    assert find_unexpressed_fields(CLUSTER_QUEUE, element, live, "lab") == []
    preference = {"preference": "PreemptionOverBorrowing"}
    assert fields(CLUSTER_QUEUE, make_queue(flavorFungibility={**fungibility, **preference})) == []
    useless = make_queue(flavorFungibility={"whenCanBorrow": "MayStopSearch", **preference})
    assert [field.partition(" ")[0] for field in fields(CLUSTER_QUEUE, useless)] == ["flavorFungibility"]


def test_a_queue_is_adopted_with_its_checks_their_parameters_and_topologies() -> None:
    """If one of the objects that it refers to is missing, the queue is not adopted."""
    check = {"controllerName": "kueue.x-k8s.io/multikueue"}
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "workers"}
    source = {"kubeConfig": {"location": "west", "locationType": "Secret"}}
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    shares: dict[str, Any] = {"fairSharing": {"weight": "2"}, "admissionScope": scope}
    checks = [{"name": "elsewhere", "onFlavors": ["gpu"]}]
    strategy: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": checks}}
    found = NamespaceObjects(
        namespace="vision",
        local_queues=(make_local_queue(),),
        cluster_queues=(make_queue(**shares, **strategy),),
        flavors=(
            make_live(KUEUE, "ResourceFlavor", "gpu", spec={"nodeLabels": {"gpu": "a"}, "topologyName": "racks"}),
        ),
        topologies=(make_live(KUEUE, "Topology", "racks", spec={"levels": [{"nodeLabel": "rack"}]}),),
        admission_checks=(make_live(KUEUE, "AdmissionCheck", "elsewhere", spec={**check, "parameters": parameters}),),
        multi_kueue_configs=(make_live(KUEUE, "MultiKueueConfig", "workers", spec={"clusters": ["west"]}),),
        multi_kueue_clusters=(make_live(KUEUE, "MultiKueueCluster", "west", spec={"clusterSource": source}),),
    )
    adopted = dict(entries(make_empty(), found))
    assert adopted["queues.topologies"] == {"name": "racks", "levels": ["rack"], "adopt": True}
    assert adopted["queues.multiKueueClusters"] == {"name": "west", **source, "adopt": True}
    assert adopted["queues.multiKueueConfigs"] == {"name": "workers", "clusters": ["west"], "adopt": True}
    assert adopted["queues.admissionChecks"] == {"name": "elsewhere", **check, "parameters": parameters, "adopt": True}
    queue = adopted["queues.clusterQueues"]
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


def test_a_provisioning_request_config_is_adopted_with_values_other_than_the_defaults() -> None:
    retries = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    spec = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", "retryStrategy": retries}
    assert fields(PROVISIONING_REQUEST_CONFIG, make_live(KUEUE, "ProvisioningRequestConfig", "nodes", spec=spec)) == []
    changed = {**spec, "retryStrategy": {**retries, "backoffLimitCount": 0}, "parameters": {"a": "b"}}
    live = make_live(KUEUE, "ProvisioningRequestConfig", "nodes", spec=changed)
    assert PROVISIONING_REQUEST_CONFIG.build_element(live)["retryStrategy"]["backoffLimitCount"] == 0
    assert fields(PROVISIONING_REQUEST_CONFIG, live) == []


def test_the_reason_for_an_object_without_a_spec_names_the_missing_field() -> None:
    """Kueue's definitions do not require a spec."""
    assert fields(TOPOLOGY, make_live(KUEUE, "Topology", "racks")) == ["levels is missing"]


def test_quantities_are_the_same_in_any_spelling() -> None:
    """The API server keeps the spelling in a Cohort or LocalQueue, and sets the default weight to the integer 1."""
    for weight in (1, 2, "1e3", "1000m"):
        assert fields(COHORT, make_live(KUEUE, "Cohort", "lab", spec={"fairSharing": {"weight": weight}})) == []
    quotas = [{"name": "cpu", "nominalQuota": 5, "lendingLimit": "1000m"}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "gpu", "resources": quotas}]}]
    assert fields(COHORT, make_live(KUEUE, "Cohort", "lab", spec={"resourceGroups": groups})) == []
    labels = {"weight": "heavy", "nominalQuota": "1000m"}
    assert fields(FLAVOR_KIND, make_live(KUEUE, "ResourceFlavor", "gpu", spec={"nodeLabels": labels})) == []


def make_volume(name: str = "pv", **changes: Any) -> dict[str, Any]:
    """Return an unbound hostPath volume of the class `fast`."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data", "type": ""},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
    }
    return make_live("v1", "PersistentVolume", name, spec={**spec, **changes})


def test_a_host_path_volume_is_expressible() -> None:
    """The volume may have a node affinity, another reclaim policy and another source."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
    assert fields(PERSISTENT_VOLUME, make_volume(claimRef={"name": "x"})) == []
    assert fields(PERSISTENT_VOLUME, make_volume(nodeAffinity={"required": {"nodeSelectorTerms": [term]}})) == []
    zones = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    assert fields(PERSISTENT_VOLUME, make_volume(nodeAffinity={"required": {"nodeSelectorTerms": [zones, term]}})) == []
    assert fields(PERSISTENT_VOLUME, make_volume(persistentVolumeReclaimPolicy="Delete")) == []
    assert fields(PERSISTENT_VOLUME, make_volume(persistentVolumeReclaimPolicy="Recycle")) != []
    nfs = {"server": "s", "path": "/data"}
    share = make_volume(hostPath=None, nfs=nfs, mountOptions=["nconnect=8"], storageClassName="")
    assert fields(PERSISTENT_VOLUME, share) == []
    csi = {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"a": "b"}, "nodeStageSecretRef": {"name": "s"}}
    assert fields(PERSISTENT_VOLUME, make_volume(hostPath=None, csi=csi)) == []
    assert fields(PERSISTENT_VOLUME, make_volume(volumeMode="Block")) == ["spec.volumeMode"]


def volumes_taken(claim: dict[str, Any], *volumes: dict[str, Any]) -> list[str]:
    """Return the names of the volumes that are adopted with the claim."""
    names = plan_adoption(
        make_empty(), NamespaceObjects(namespace="vision", claims=(claim,), persistent_volumes=volumes)
    ).adopted_objects
    return [name.removeprefix("PersistentVolume ") for name in names if name.startswith("PersistentVolume ")]


def test_an_unbound_volume_is_adopted_only_if_the_claim_selects_it() -> None:
    """The volume must also fit the claim. Any team may use the other volumes of the class."""
    labels = {"for": "models"}

    def labelled(name: str, **changes: Any) -> dict[str, Any]:
        live = make_volume(name, **changes)
        return {**live, "metadata": {**live["metadata"], "labels": labels}}

    volumes = (
        make_volume("plain"),
        labelled("fits"),
        labelled("small", capacity={"storage": "1Mi"}),
        labelled("once", accessModes=["ReadWriteOnce"]),
        labelled("of-another-class", storageClassName="slow"),
        labelled("held", claimRef={"namespace": "audio", "name": "data", "uid": "2"}),
    )
    assert volumes_taken(make_claim(volumeName=None), *volumes) == []
    assert volumes_taken(make_claim(volumeName=None, selector={"matchLabels": labels}), *volumes) == ["fits"]
    expression = {"key": "disk", "operator": "Exists"}
    selector = {"matchLabels": labels, "matchExpressions": [expression]}
    assert volumes_taken(make_claim(volumeName=None, selector=selector), *volumes) == []


def test_a_volume_that_refers_to_a_claim_is_adopted_with_it() -> None:
    """A bound or a pre-bound volume. Not a volume of an earlier claim of that name, or of another namespace."""
    reference = {"namespace": "vision", "name": "data"}
    volumes = (
        make_volume("bound", claimRef={**reference, "uid": "1"}),
        make_volume("kept", claimRef=reference),
        make_volume("released", claimRef={**reference, "uid": "0"}),
        make_volume("pvc-1", claimRef={**reference, "namespace": "audio"}),
    )
    assert volumes_taken(make_claim(), *volumes) == ["bound", "kept"]


def test_an_object_with_another_owner_is_not_adopted() -> None:
    """The owner is another stack, another tool, a controller, or this environment."""

    def make_owned(**metadata: Any) -> dict[str, Any]:
        live = make_claim()
        return {**live, "metadata": {**live["metadata"], **metadata}}

    reasons = {
        "belongs to stack 'other'": make_owned(labels={"trainstack.dev/stack": "other"}),
        "is managed by Helm, which would overwrite it": make_owned(labels={"app.kubernetes.io/managed-by": "Helm"}),
        "is managed by Flux, which would overwrite it": make_owned(labels={"kustomize.toolkit.fluxcd.io/name": "x"}),
        "is managed by Argo CD, which would overwrite it": make_owned(
            annotations={"argocd.argoproj.io/tracking-id": "x:/PersistentVolumeClaim:vision/data"}
        ),
        "belongs to StatefulSet db": make_owned(ownerReferences=[{"kind": "StatefulSet", "name": "db"}]),
        "is being deleted": make_owned(deletionTimestamp="2026-01-01T00:00:00Z"),
    }
    for reason, claim in reasons.items():
        assert left(make_empty(), NamespaceObjects(namespace="vision", claims=(claim,))) == {
            "PersistentVolumeClaim vision/data": reason
        }
    declared = make_owned(name="training", namespace="research")
    assert left(make_settings(), NamespaceObjects(namespace="research", claims=(declared,))) == {
        "PersistentVolumeClaim research/training": "is declared by test already"
    }


def test_a_priority_class_of_the_shared_defaults_is_adopted_with_the_live_values() -> None:
    """The environment's own file overrides defaults.yaml."""
    settings = make_empty(queues=Queues(priority_classes=(PriorityClass(name="normal", value=1, description="x"),)))
    live = make_live(KUEUE, "WorkloadPriorityClass", "normal", value=7)
    found = NamespaceObjects(namespace="default", priority_classes=(live,))
    assert entries(settings, found, "normal") == [
        ("queues.priorityClasses", {"name": "normal", "value": 7, "adopt": True, "description": ""})
    ]
    assert plan_adoption(settings, found).reasons_by_object == {
        "WorkloadPriorityClass normal": "is declared by test already"
    }


def test_operators_are_listed_with_version_and_namespace() -> None:
    """Adoption leaves them to the owner who installed them."""
    found = NamespaceObjects(
        namespace="vision", operators=(InstalledOperator(name="Kueue", namespace="kueue-system", version="v0.15.2"),)
    )
    assert list(describe_operators(found)) == ["Kueue v0.15.2 in namespace kueue-system"]
