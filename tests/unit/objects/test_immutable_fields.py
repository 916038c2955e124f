"""Edits that the API server refuses are found before the engine tries them."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.unit.make import make_queues, make_settings, make_storage, make_volume
from tests.unit.preflight.cluster_cases import check, make_live
from trainstack.guards.immutable_edits import may_be_refused
from trainstack.guards.other_states import OwnState, StateObject
from trainstack.live.client import Answer
from trainstack.live.paths import object_path
from trainstack.objects.immutable_fields import IMMUTABLE_FIELDS, Difference, ImmutableField, differences
from trainstack.objects.labels import STACK, field_manager
from trainstack.objects.ownership import identity
from trainstack.platform import storage
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import AdmissionCheck, LocalQueue, ResourceFlavor, Topology
from trainstack.settings.sections.storage import PersistentVolume, StorageClass
from trainstack.stack_objects.immutable_objects import objects_with_immutable_fields
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks import live_guards

Body = dict[str, Any]
ALL_FIELDS = [field for _, fields in IMMUTABLE_FIELDS.values() for field in fields]
OWN = {STACK: "test"}
CLASS = StorageClass(name="shared", provisioner="rancher.io/local-path", parameters={"type": "ssd"})
QUEUES = make_queues(
    topologies=(Topology(name="racks", levels=("block", "rack")),),
    admission_checks=(AdmissionCheck(name="nodes", controller_name="example.org/nodes"),),
    flavors=(ResourceFlavor(name="cpu", node_labels={"pool": "a"}, topology="racks"),),
    local_queues=(LocalQueue(name="research", namespace="research", cluster_queue="research"),),
)
VOLUME = PersistentVolume(
    name="disk", storage_class="manual", size="1Gi", access_modes=("ReadWriteMany",), host_path="/data", node="a"
)
SETTINGS = make_settings(
    queues=QUEUES, storage=make_storage(classes=(CLASS,), persistent_volumes=(VOLUME,), volumes=(make_volume(),))
)


def manifests(settings: Settings = SETTINGS) -> dict[str, Body]:
    """Return the objects with immutable fields by kind."""
    return {manifest["kind"]: manifest for _, manifest in objects_with_immutable_fields(StackObjects(settings))}


EDITS: list[tuple[str, str, Any, str]] = [
    ("StorageClass", "provisioner", "ebs.csi.aws.com", "provisioner"),
    ("StorageClass", "parameters", {"type": "disk"}, "parameters"),
    ("StorageClass", "reclaimPolicy", "Delete", "reclaimPolicy"),
    ("StorageClass", "volumeBindingMode", "Immediate", "volumeBindingMode"),
    ("PersistentVolume", "spec.hostPath", {"path": "/other", "type": "Directory"}, "hostPath"),
    ("PersistentVolume", "spec.hostPath", {"path": "/data", "type": ""}, "hostPathType"),
    ("PersistentVolume", "spec.nodeAffinity", {"required": {"nodeSelectorTerms": [{}]}}, "node"),
    ("PersistentVolume", "spec.volumeMode", "Block", ""),
    ("PersistentVolumeClaim", "spec.storageClassName", "old", "storageClass"),
    ("PersistentVolumeClaim", "spec.accessModes", ["ReadWriteOnce"], "accessModes"),
    ("PersistentVolumeClaim", "spec.selector", {"matchLabels": {"for": "models"}}, "selector"),
    ("PersistentVolumeClaim", "spec.volumeMode", "Block", ""),
    ("Topology", "spec.levels", [{"nodeLabel": "rack"}], "levels"),
    ("Topology", "spec.levels", [{"nodeLabel": "rack"}, {"nodeLabel": "block"}], "levels"),
    ("AdmissionCheck", "spec.controllerName", "example.org/other", "controllerName"),
    ("ResourceFlavor", "spec.nodeLabels", {"pool": "b"}, "nodeLabels"),
    ("ResourceFlavor", "spec.nodeTaints", [{"key": "a", "effect": "NoSchedule"}], "nodeTaints"),
    ("ResourceFlavor", "spec.tolerations", [{"key": "a", "operator": "Exists"}], "tolerations"),
    ("ResourceFlavor", "spec.topologyName", "blocks", "topology"),
    ("LocalQueue", "spec.clusterQueue", "old", "clusterQueue"),
]
"""Kind, path and value of a live field, and the key of the setting that differs then."""


def edited(kind: str, path: str, value: Any, **labels: str) -> Body:
    """Return the live object with another value of one field."""
    body: Body = yaml.safe_load(yaml.safe_dump(manifests()[kind]))
    *holders, last = path.split(".")
    holder = body
    for step in holders:
        holder = holder[step]
    holder[last] = value
    body["metadata"]["labels"] = {**labels}
    return body


def keys(found: Iterator[Difference]) -> list[str]:
    return [difference.field.setting for difference in found]


@pytest.mark.parametrize(("kind", "path", "value", "setting"), EDITS)
def test_each_immutable_field_is_compared(kind: str, path: str, value: Any, setting: str) -> None:
    """Nothing else differs, and nothing at all without the edit."""
    assert keys(differences(manifests()[kind], edited(kind, path, value), is_own=True)) == [setting]
    for is_own in (True, False):
        assert keys(differences(manifests()[kind], manifests()[kind], is_own=is_own)) == []


def test_the_table_has_a_case_of_each_field() -> None:
    """The next test has the fields that the cluster sets, too."""
    assert {(kind, setting) for kind, _, _, setting in EDITS} == {
        (kind, field.setting)
        for kind, (_, fields) in IMMUTABLE_FIELDS.items()
        for field in fields
        if not field.is_set_by_cluster or field.setting == "storageClass"
    }


@pytest.mark.parametrize(
    "field", [field for field in ALL_FIELDS if field.is_set_by_cluster], ids=lambda field: field.path
)
@pytest.mark.parametrize("is_own", [True, False])
def test_what_the_cluster_adds_to_an_omitted_field_is_no_difference(field: ImmutableField, is_own: bool) -> None:
    kind = "PersistentVolume" if field.setting.startswith("source") else "PersistentVolumeClaim"
    bare: Body = {"kind": kind, "metadata": {}, "spec": {}}
    declared = put(bare, field, {"path": "/a", "parts": {"x": 1}})
    defaulted = put(bare, field, {"path": "/a", "parts": {"x": 1, "y": 2}, "mode": "Default"})
    other = put(bare, field, {"path": "/a", "parts": {"x": 2}})
    assert keys(differences(bare, defaulted, is_own=is_own)) == []
    assert keys(differences(declared, defaulted, is_own=is_own)) == []
    assert keys(differences(declared, other, is_own=is_own)) == [field.setting]
    assert keys(differences(declared, bare, is_own=is_own)) == [field.setting]
    applied = {
        "manager": field_manager("a" * 32),
        "fieldsV1": {"f:spec": {f"f:{field.path.removeprefix('spec.')}": {}}},
    }
    removed = {**declared, "metadata": {"managedFields": [applied]}}
    assert keys(differences(bare, removed, is_own=is_own)) == ([field.setting] if is_own else [])


def put(body: Body, field: ImmutableField, value: Any) -> Body:
    """Return the object with a value of a field of its spec."""
    return {**body, "spec": {**body["spec"], field.path.removeprefix("spec."): value}}


def test_the_class_of_a_claim_is_compared_if_it_is_declared() -> None:
    """An empty class is a value; a claim that omits the class gets the default one."""
    live = storage.claim(make_volume(), "test")
    for is_own in (True, False):
        assert keys(differences(storage.claim(make_volume(storage_class=""), "test"), live, is_own=is_own)) == [
            "storageClass"
        ]
        assert keys(differences(storage.claim(make_volume(storage_class=None), "test"), live, is_own=is_own)) == []


def test_a_field_that_is_left_out_is_removed_only_from_an_own_object() -> None:
    """A server-side apply leaves the fields of others, and merges parameters."""
    bare = storage.storage_class(CLASS.model_copy(update={"parameters": {}}), "test")
    more = edited("StorageClass", "parameters", {"type": "ssd", "zone": "b"})
    assert keys(differences(bare, more, is_own=False)) == []
    assert keys(differences(bare, more, is_own=True)) == ["parameters"]
    assert keys(differences(manifests()["StorageClass"], more, is_own=False)) == []
    assert keys(differences(manifests()["StorageClass"], more, is_own=True)) == ["parameters"]
    other = edited("StorageClass", "parameters", {"type": "disk", "zone": "b"})
    (difference,) = differences(manifests()["StorageClass"], other, is_own=False)
    assert (difference.live, difference.declared) == ("{'type': 'disk'}", "{'type': 'ssd'}")
    assert keys(differences(manifests()["StorageClass"], edited("StorageClass", "parameters", {}), is_own=False)) == [
        "parameters"
    ]


def test_a_flavor_is_immutable_only_with_a_topology() -> None:
    """The topology may be added once; so may the node of a volume."""
    without = edited("ResourceFlavor", "spec", {"nodeLabels": {"pool": "b"}})
    assert keys(differences(manifests()["ResourceFlavor"], without, is_own=True)) == []
    anywhere = edited("PersistentVolume", "spec.nodeAffinity", None)
    assert keys(differences(manifests()["PersistentVolume"], anywhere, is_own=True)) == []


def test_the_order_of_access_modes_has_no_meaning() -> None:
    modes = make_volume(access_modes=("ReadWriteMany", "ReadOnlyMany"))
    claim, live = storage.claim(modes, "test"), storage.claim(modes, "test")
    live["spec"]["accessModes"] = ["ReadOnlyMany", "ReadWriteMany"]
    assert keys(differences(claim, live, is_own=True)) == []


@pytest.mark.parametrize(("kind", "path", "value", "setting"), EDITS)
def test_a_check_of_the_cluster_finds_each_edit(kind: str, path: str, value: Any, setting: str) -> None:
    """A warning where `up` replaces the stack's own object; another rule has classes, and shows no edit twice."""
    namespace = manifests()[kind]["metadata"].get("namespace")
    key = f"{kind} {namespace}" if namespace else kind
    rule = "class-differs" if kind == "StorageClass" else "field-immutable"
    for labels in ({}, OWN):
        objects = {"StorageClass": (manifests()["StorageClass"],), key: (edited(kind, path, value, **labels),)}
        live = make_live(objects)
        found = [finding for finding in check(SETTINGS, live) if finding.id in ("class-differs", "field-immutable")]
        is_replaced = kind == "LocalQueue" or setting in ("provisioner", "parameters")
        severity = "warning" if labels and is_replaced else "error"
        section, _ = IMMUTABLE_FIELDS[kind]
        place = f"{section}[{manifests()[kind]['metadata']['name']}]{f'.{setting}' if setting else ''}"
        # What another owner has set, and the settings leave out, stays.
        stays = not labels and setting in ("selector", "nodeTaints", "tolerations")
        expected = [] if stays else [(rule, severity, place)]
        assert [(finding.id, finding.severity, finding.path) for finding in found] == expected


def test_a_claim_that_may_be_discarded_is_no_finding() -> None:
    """The change replaces it."""
    claim = edited("PersistentVolumeClaim", "spec.storageClassName", "old")
    live = make_live({"PersistentVolumeClaim research": (claim,)})
    allowed = SETTINGS.storage.model_copy(update={"discard": ("research/training",)})
    settings = SETTINGS.model_copy(update={"storage": allowed})
    assert "field-immutable" not in {finding.id for finding in check(settings, live)}


def refused(monkeypatch: pytest.MonkeyPatch, *live: Body, state: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the refusals of a change that may edit these objects; `state`: the kinds in the engine's state."""
    locations = {object_path(body): Answer(200, body) for body in live}
    monkeypatch.setattr(live_guards, "read", lambda asked, _: {path: locations[path] for path in asked})
    recorded = {identity(body): StateObject(api_version="v1", urn="") for body in live if body["kind"] in state}
    places = {"queues.topologies[racks].levels": Place("Pulumi.test.yaml", 7)}
    own = OwnState("a", objects=recorded)
    return live_guards.immutable_edit_refusals(StackObjects(SETTINGS), own, {identity(body) for body in live}, places)


def test_a_preview_refuses_what_the_api_server_would_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal has place, both values and the remedy. The engine replaces some objects of its state."""
    levels = edited("Topology", "spec.levels", [{"nodeLabel": "rack"}])
    (refusal,) = refused(monkeypatch, levels, state=("Topology",))
    assert refusal == (
        "Pulumi.test.yaml:7: queues.topologies[racks].levels: Topology racks has levels rack, and block, rack is "
        "declared: the field is immutable; undo the edit, or declare the object under another name"
    )
    parameters = edited("StorageClass", "parameters", {"type": "disk"})
    assert len(refused(monkeypatch, parameters)) == 1
    assert refused(monkeypatch, parameters, state=("StorageClass",)) == ()
    binding = edited("StorageClass", "volumeBindingMode", "Immediate")
    assert len(refused(monkeypatch, binding, state=("StorageClass",))) == 1
    assert refused(monkeypatch, manifests()["StorageClass"], manifests()["Topology"]) == ()


def test_a_preview_reads_only_what_may_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither claims and volumes, which another guard reads, nor queues that the engine would replace."""
    kinds = {kind for kind in IMMUTABLE_FIELDS if may_be_refused(kind, in_state=True)}
    assert kinds == {"StorageClass", "Topology", "AdmissionCheck", "ResourceFlavor"}
    assert may_be_refused("LocalQueue", in_state=False)
    assert not may_be_refused("Job", in_state=False)
    queue = edited("LocalQueue", "spec.clusterQueue", "old")
    assert refused(monkeypatch, queue, state=("LocalQueue",)) == ()
    assert len(refused(monkeypatch, queue)) == 1
    assert refused(monkeypatch) == ()
