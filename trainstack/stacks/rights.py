"""The rights of an environment's deployers and researchers (docs/decisions/0013-least-privilege.md). Pure.

Each has a role, derived from the declared objects and from the reads of the commands. An administrator first creates
the namespaces, and the admission policies that restrict the roles to the declared objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainstack.live import paths
from trainstack.live.admission import CLUSTER_WIDE, NAMESPACED, TOPOLOGY, declares_topologies
from trainstack.live.environment import api_version_of, names_runtimes
from trainstack.live.identity import SYSTEM_NAMESPACE
from trainstack.live.snapshot import run_namespaces
from trainstack.objects.labels import PATCH_FORCE, POD_SECURITY, PREPARED, STACK, Manifest
from trainstack.objects.launch_kinds import STANDARD_LAUNCH_KINDS, GroupResource
from trainstack.objects.ownership import identity
from trainstack.platform import probes
from trainstack.platform.operators.kueue import CONFIG_KEY
from trainstack.platform.rbac import policies
from trainstack.platform.rbac.escalations import Escalation, find_escalations
from trainstack.platform.rbac.rights import (
    API,
    DECLARE_VERBS,
    TRAINING_RUNTIMES,
    WATCH_VERBS,
    Grant,
    build_roles,
    day_two_rights,
    grants,
    rights_to_delete,
    rights_to_find_launches,
    rights_to_guard,
    team_rights,
    training_rights,
)
from trainstack.platform.retained import list_retained_objects
from trainstack.platform.teams import TENANT_PREFIX
from trainstack.preflight.live_context import CLUSTER_SCOPED
from trainstack.runs.status.launch_kinds import launch_resource, optional_kinds
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import CLUSTER_RUNTIME
from trainstack.stack_objects.stack_objects import StackObjects

DEPLOYER, RESEARCHER = "deployer", "researcher"
"""The roles for `pulumi preview`, `up`, `refresh`, `trainstack destroy` and `doctor`, and for day-two commands."""
_KUEUE = "kueue.x-k8s.io"


@dataclass(frozen=True)
class Rights:
    """The objects that an administrator applies for an environment."""

    namespaces: tuple[Manifest, ...]
    """The declared namespaces, which contain roles before the first `up`."""
    policies: tuple[Manifest, ...]
    """Admission policies and their bindings."""
    roles: tuple[Manifest, ...]
    """`trainstack-<environment>-<deployer|researcher>`, in the order of their names."""
    escalations: Mapping[str, tuple[Escalation, ...]]
    """The rights beyond a role's purpose, by role name, including teams."""

    @property
    def objects(self) -> tuple[Manifest, ...]:
        return (*self.namespaces, *self.policies, *self.roles)


def rights_of(stack_objects: StackObjects) -> Rights:
    """Return the rights of an environment. Raises OperatorError if a release lacks an object that its install needs."""
    settings = stack_objects.settings
    components = (*(stack_objects.platform or (stack_objects.secrets,)), stack_objects.other_objects)
    manifests = [manifest for component in components for manifest in component.manifests]
    namespaces = [manifest for manifest in manifests if manifest["kind"] == "Namespace"]
    admission_policies = policies.admission_policies(settings.stack, manifests, {*map(_resource_of, _probes(settings))})
    pod_security_levels = {
        _name(namespace): namespace["metadata"]["labels"].get(f"{POD_SECURITY}enforce", "") for namespace in namespaces
    }
    grants_by_role = {
        role_name(settings.stack, DEPLOYER): deployer_rights(settings, manifests),
        role_name(settings.stack, RESEARCHER): researcher_rights(settings, manifests),
    }
    optional = optional_kinds(settings)
    # Teams' roles are declared by the platform, not applied by the administrator; only their escalations are shown.
    grants_by_team = {
        f"{TENANT_PREFIX}{team.name}": team_rights(team.namespace, optional) for team in settings.tenants.teams
    }
    return Rights(
        namespaces=tuple(
            _prepared_namespace(namespace)
            for namespace in namespaces
            if PATCH_FORCE not in namespace["metadata"].get("annotations", {})  # an adopted one exists
        ),
        policies=tuple(admission_policies),
        roles=tuple(role for name, rights in grants_by_role.items() for role in build_roles(name, rights)),
        escalations={
            name: tuple(find_escalations(rights, pod_security_levels, policies.restricted_objects(admission_policies)))
            for name, rights in {**grants_by_role, **grants_by_team}.items()
        },
    )


def role_name(stack: str, role: str) -> str:
    return f"trainstack-{stack}-{role}"


def deployer_rights(settings: Settings, manifests: Iterable[Manifest]) -> set[Grant]:
    """Return the rights of the engine and the program.

    Roles are in the objects' namespaces, which an administrator creates.
    """
    objects = list(manifests)
    retained_identities = {retained_object.identity for retained_object in list_retained_objects(settings, objects)}
    rights: set[Grant] = set()
    for manifest in objects:
        namespace = manifest["metadata"].get("namespace", "")
        rights |= _declaration_rights(manifest, namespace, is_deleted=identity(manifest) not in retained_identities)
    rights |= _probe_rights(settings) | _discovery_rights(settings) | _guard_rights(settings, objects)
    for namespace, kinds in _launch_kinds_by_namespace(settings).items():
        claims = {
            volume.name: not (volume.retain or volume.protect)
            for volume in settings.storage.volumes
            if volume.namespace == namespace
        }
        rights |= training_rights(namespace, kinds, claims)
    for sweep in settings.sweeps.sweeps:
        if not sweep.run.managed:
            # `up` stores the output of such trials before their pods are deleted.
            rights |= grants("", "pods/log", ("get",), sweep.run.namespace)
    return rights


def researcher_rights(settings: Settings, manifests: Iterable[Manifest]) -> set[Grant]:
    """Return the rights of day-two commands: in the namespaces of runs and volumes, and for cluster-wide lists."""
    rights = _discovery_rights(settings)
    for namespace, kinds in _launch_kinds_by_namespace(settings).items():
        rights |= day_two_rights(namespace, kinds)
    if settings.environment.profile != "owner":
        return rights
    versions_by_kind = {**{kind: api_version_of(kind) for kind in CLUSTER_SCOPED}, **CLUSTER_WIDE, **NAMESPACED}
    if declares_topologies(settings) or settings.queues.topologies:
        versions_by_kind |= TOPOLOGY
    if names_runtimes(settings):
        versions_by_kind[CLUSTER_RUNTIME] = api_version_of(CLUSTER_RUNTIME)
    rights |= {
        grant for kind, version in versions_by_kind.items() for grant in grants(*_resource(kind, version), ("list",))
    }
    # The installed operators, and the configuration of this stack's Kueue.
    rights |= grants("apps", "deployments", ("list",)) | grants("", "pods", ("list",))
    rights |= grants(_KUEUE, "clusterqueues", ("get",))
    for manifest in manifests:
        if manifest["kind"] == "ConfigMap" and CONFIG_KEY in (manifest.get("data") or {}):
            rights |= grants("", "configmaps", ("get",), manifest["metadata"]["namespace"], [_name(manifest)])
    return rights | _probe_rights(settings)


def _discovery_rights(settings: Settings) -> set[Grant]:
    optional = optional_kinds(settings)
    return {
        grant for namespace in run_namespaces(settings) for grant in rights_to_find_launches(namespace or "", optional)
    }


def _guard_rights(settings: Settings, manifests: Iterable[Manifest]) -> set[Grant]:
    """Return the rights to read the cluster, volumes, and, for `trainstack doctor`, objects with the stack's label.

    The doctor reports the kinds that it may not list: undeclared ones, and Secrets, whose list includes their values.
    """
    if settings.environment.profile == "tenant":
        return {grant for namespace in run_namespaces(settings) if namespace for grant in rights_to_guard(namespace)}
    resources = {_resource_of(manifest) for manifest in manifests if manifest["kind"] != "Secret"}
    if any(
        STANDARD_LAUNCH_KINDS["TrainJob"] in launch_kinds
        for launch_kinds in _launch_kinds_by_namespace(settings).values()
    ):
        resources.add(TRAINING_RUNTIMES)
    return {
        *grants("", "namespaces", ("get",), names=[SYSTEM_NAMESPACE]),
        *grants("", "persistentvolumeclaims", ("list",)),
        *(grant for kind in resources for grant in grants(*kind, ("list",))),
    }


def _probe_rights(settings: Settings) -> set[Grant]:
    """Return the rights to dry runs of the objects that test webhooks. An admission policy prevents their storage."""
    return {
        grant
        for probe in _probes(settings)
        for grant in grants(
            *_resource_of(probe), ("create", "patch"), probe["metadata"].get("namespace", ""), [_name(probe)]
        )
    }


def _probes(settings: Settings) -> list[Manifest]:
    installs = settings.operators.installs if "platform" in settings.environment.layers else ()
    return [probes.BY_OPERATOR[name](settings.stack) for name in installs]


def _declaration_rights(manifest: Manifest, namespace: str, *, is_deleted: bool) -> set[Grant]:
    """Return the rights to declare an object of the platform, and with `is_deleted` to delete it in a destroy."""
    resource, name = _resource_of(manifest), [_name(manifest)]
    # A namespace that does not exist yet contains no role.
    verbs = ("get", "patch") if manifest["kind"] == "Namespace" else DECLARE_VERBS
    rights = grants(*resource, verbs, namespace, name)
    if is_deleted:
        rights |= rights_to_delete(*resource, namespace, name)
    match manifest["kind"]:
        case "ClusterQueue":
            # Its users are read before its deletion.
            rights |= grants(_KUEUE, "localqueues", ("list",)) | grants(_KUEUE, "workloads", ("list",))
        case "Deployment":
            rights |= grants("apps", "replicasets", WATCH_VERBS, namespace)
            rights |= grants("", "pods", WATCH_VERBS, namespace) | grants(
                "", "persistentvolumeclaims", WATCH_VERBS, namespace
            )
            rights |= grants(*resource, WATCH_VERBS, namespace)
        case "Service":
            rights |= grants(*resource, WATCH_VERBS, namespace) | grants("", "endpoints", WATCH_VERBS, namespace)
        case "Role" | "ClusterRole":
            # RBAC requires this verb to grant rights that the deployer does not have.
            rights |= grants(*resource, ("escalate",), namespace, name)
        case "RoleBinding" | "ClusterRoleBinding":
            role_ref = manifest["roleRef"]
            rights |= grants(API, f"{role_ref['kind'].lower()}s", ("bind",), namespace, [role_ref["name"]])
    return rights


def _launch_kinds_by_namespace(settings: Settings) -> Mapping[str, set[GroupResource]]:
    """Return the kinds of the runs' objects by namespace, including namespaces of volumes."""
    if "training" not in settings.environment.layers:
        return {}
    launch_kinds: dict[str, set[GroupResource]] = {namespace: set() for namespace in settings.volume_namespaces}
    for _, run in settings.runs_and_trials():
        launch_kinds.setdefault(run.namespace, set()).add(launch_resource(run))
    return launch_kinds


def _resource_of(manifest: Manifest) -> tuple[str, str]:
    return _resource(manifest["kind"], manifest["apiVersion"])


def _resource(kind: str, api_version: str) -> tuple[str, str]:
    return api_version.rpartition("/")[0], paths.collection_path(api_version, kind, None).rpartition("/")[2]


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def _prepared_namespace(namespace: Manifest) -> Manifest:
    """Return a namespace as an administrator creates it, without the label of the stack."""
    meta = namespace["metadata"]
    labels = {key: value for key, value in meta["labels"].items() if key != STACK}
    return {**namespace, "metadata": {**meta, "labels": {**labels, PREPARED: meta["labels"][STACK]}}}
