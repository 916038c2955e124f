"""The rights that an environment's people need: who deploys it, and who uses it day by day. Pure.

A role of each is made from what the environment declares and from what the commands read. Before the roles come the
namespaces, which only an administrator creates, and the admission policies that hold the roles to what is declared
(docs/decisions/0013-least-privilege.md).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainstack.declared.declared import Declared
from trainstack.live import paths
from trainstack.live.admission import CLUSTER_WIDE, NAMESPACED
from trainstack.live.environment import version_of
from trainstack.live.identity import SYSTEM
from trainstack.live.snapshot import run_namespaces
from trainstack.objects.labels import PATCH_FORCE, POD_SECURITY, PREPARED, STACK, Manifest
from trainstack.platform import probes
from trainstack.platform.operators.kueue import CONFIG_KEY
from trainstack.platform.rbac import policies
from trainstack.platform.rbac.escalations import Escalation, escalations
from trainstack.platform.rbac.rights import (
    API,
    DECLARE,
    RUNTIMES,
    WATCH,
    Grant,
    as_roles,
    day_two,
    deleted,
    for_a_team,
    found,
    grants,
    guarded,
    training,
)
from trainstack.platform.retained import retained
from trainstack.platform.tenants import TENANT
from trainstack.preflight.live_context import CLUSTER_SCOPED
from trainstack.runs.status.kinds import launched_as
from trainstack.settings.model import Settings

DEPLOYER, RESEARCHER = "deployer", "researcher"
"""`pulumi preview`, `up`, `refresh`, `trainstack destroy`, `doctor`; and what people do between two of them."""
_KUEUE = "kueue.x-k8s.io"


@dataclass(frozen=True)
class Rights:
    """What an administrator applies for an environment."""

    namespaces: tuple[Manifest, ...]
    """Those that the stack declares, so that roles can be in them before the first `up`."""
    policies: tuple[Manifest, ...]
    """Admission policies and their bindings."""
    roles: tuple[Manifest, ...]
    """`trainstack-<environment>-<deployer|researcher>`, in the order of their names."""
    escalations: Mapping[str, tuple[Escalation, ...]]
    """By role name, those of teams too: how it reaches further than its purpose."""

    @property
    def objects(self) -> tuple[Manifest, ...]:
        """All of it, in the order in which it is applied."""
        return (*self.namespaces, *self.policies, *self.roles)


def rights_of(environment: Declared) -> Rights:
    """The rights of an environment.

    Raises OperatorError where a release does not hold what an install of it needs.
    """
    settings = environment.settings
    components = environment.platform or (environment.secrets,)
    declared = [manifest for component in components for manifest in component.manifests]
    namespaces = [each for each in declared if each["kind"] == "Namespace"]
    holding = policies.policies(settings.stack, declared, {_kind(each) for each in _probes(settings)})
    levels = {_name(each): each["metadata"]["labels"].get(f"{POD_SECURITY}enforce", "") for each in namespaces}
    granted = {
        role_name(settings.stack, DEPLOYER): deployer(settings, declared),
        role_name(settings.stack, RESEARCHER): researcher(settings, declared),
    }
    of_teams = {f"{TENANT}{each.name}": for_a_team(each.namespace) for each in settings.tenants.teams}
    return Rights(
        namespaces=tuple(_prepared(each) for each in namespaces if not _adopted(each)),
        policies=tuple(holding),
        roles=tuple(role for name, each in granted.items() for role in as_roles(name, each)),
        escalations={
            name: tuple(escalations(each, levels, policies.held(holding)))
            for name, each in {**granted, **of_teams}.items()
        },
    )


def role_name(stack: str, who: str) -> str:
    """The name of a role."""
    return f"trainstack-{stack}-{who}"


def deployer(settings: Settings, declared: Iterable[Manifest]) -> set[Grant]:
    """What the engine and the program ask for.

    Each right is one of the object's namespace. Namespaces are there before, since only an administrator creates them.
    """
    objects = list(declared)
    keeps = {(each.kind, each.namespace, each.name) for each in retained(settings, objects)}
    result: set[Grant] = set()
    for each in objects:
        namespace = each["metadata"].get("namespace")
        result |= _declared(each, namespace or "", goes=(each["kind"], namespace, _name(each)) not in keeps)
    result |= _asked(settings) | _found(settings) | _looked_at(settings, objects)
    for namespace, kinds in _trained(settings).items():
        claims = {
            each.name: not (each.retain or each.protect)
            for each in settings.storage.volumes
            if each.namespace == namespace
        }
        result |= training(namespace, kinds, claims)
    for sweep in settings.sweeps.sweeps:
        if not sweep.run.managed:
            # `up` keeps what such trials print, before their pods are gone.
            result |= grants("", "pods/log", ("get",), sweep.run.namespace)
    return result


def researcher(settings: Settings, declared: Iterable[Manifest]) -> set[Grant]:
    """What the day's commands ask for: in the namespaces of runs and volumes, and for lists that are cluster-wide."""
    result = _found(settings)
    for namespace, kinds in _trained(settings).items():
        result |= day_two(namespace, kinds)
    if settings.environment.profile != "owner":
        return result
    lists = {**{kind: version_of(kind) for kind in CLUSTER_SCOPED}, **CLUSTER_WIDE, **NAMESPACED}
    result |= {grant for kind, version in lists.items() for grant in grants(*_listed(kind, version), ("list",))}
    # Which operators there are, and what this stack's Kueue is told.
    result |= grants("apps", "deployments", ("list",)) | grants("", "pods", ("list",))
    result |= grants(_KUEUE, "clusterqueues", ("get",))
    for each in declared:
        if each["kind"] == "ConfigMap" and CONFIG_KEY in each["data"]:
            result |= grants("", "configmaps", ("get",), each["metadata"]["namespace"], [_name(each)])
    return result | _asked(settings)


def _found(settings: Settings) -> set[Grant]:
    """Looking for the stack's runs, wherever they may be."""
    return {grant for namespace in run_namespaces(settings) for grant in found(namespace or "")}


def _looked_at(settings: Settings, declared: Iterable[Manifest]) -> set[Grant]:
    """What the guards read of the cluster and of volumes; and for `trainstack doctor` what bears the stack's mark.

    The doctor names the kinds that it may not list. Those are the ones that are not declared, and Secrets, which a list
    would show whole.
    """
    if settings.environment.profile == "tenant":
        return {grant for namespace in run_namespaces(settings) if namespace for grant in guarded(namespace)}
    kinds = {_kind(each) for each in declared if each["kind"] != "Secret"}
    if any("TrainJob" in each for each in _trained(settings).values()):
        kinds.add(RUNTIMES)
    return {
        *grants("", "namespaces", ("get",), names=[SYSTEM]),
        *grants("", "persistentvolumeclaims", ("list",)),
        *(grant for kind in kinds for grant in grants(*kind, ("list",))),
    }


def _asked(settings: Settings) -> set[Grant]:
    """The question whether operators' webhooks answer: a dry run of an object that an admission policy never stores."""
    return {
        grant
        for each in _probes(settings)
        for grant in grants(*_kind(each), ("create", "patch"), each["metadata"].get("namespace", ""), [_name(each)])
    }


def _probes(settings: Settings) -> list[Manifest]:
    installs = settings.operators.installs if "platform" in settings.environment.halves else ()
    return [probes.BY_OPERATOR[name](settings.stack) for name in installs]


def _declared(manifest: Manifest, where: str, *, goes: bool) -> set[Grant]:
    """What it takes to declare one object of the platform, and if it goes with the stack, to take it away."""
    kind, name = _kind(manifest), [_name(manifest)]
    # Of a namespace that has yet to be created no role could name what is in it.
    verbs = ("get", "patch") if manifest["kind"] == "Namespace" else DECLARE
    result = grants(*kind, verbs, where, name)
    if goes:
        result |= deleted(*kind, where, name)
    match manifest["kind"]:
        case "CustomResourceDefinition":
            # The provider changes one by a PUT.
            result |= grants(*kind, ("update",), where, name)
        case "ClusterQueue":
            # Who else uses it is looked at before it goes.
            result |= grants(_KUEUE, "localqueues", ("list",)) | grants(_KUEUE, "workloads", ("list",))
        case "Deployment":
            result |= grants("apps", "replicasets", WATCH, where)
            result |= grants("", "pods", WATCH, where) | grants("", "persistentvolumeclaims", WATCH, where)
            result |= grants(*kind, WATCH, where)
        case "Service":
            result |= grants(*kind, WATCH, where) | grants("", "endpoints", WATCH, where)
        case "Role" | "ClusterRole":
            # Nobody may write rights that he has not, but for this.
            result |= grants(*kind, ("escalate",), where, name)
        case "RoleBinding" | "ClusterRoleBinding":
            bound = manifest["roleRef"]
            result |= grants(API, f"{bound['kind'].lower()}s", ("bind",), where, [bound["name"]])
    return result


def _trained(settings: Settings) -> Mapping[str, set[str]]:
    """By namespace, of volumes too: the kinds of its runs' objects."""
    if "training" not in settings.environment.halves:
        return {}
    result: dict[str, set[str]] = {each.namespace: set() for each in settings.storage.volumes}
    for _, run in settings.trained():
        result.setdefault(run.namespace, set()).add(launched_as(run))
    return result


def _kind(manifest: Manifest) -> tuple[str, str]:
    """API group and plural."""
    return _listed(manifest["kind"], manifest["apiVersion"])


def _listed(kind: str, api_version: str) -> tuple[str, str]:
    return api_version.rpartition("/")[0], paths.collection(api_version, kind, None).rpartition("/")[2]


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def _prepared(namespace: Manifest) -> Manifest:
    """A namespace as an administrator creates it: with everything but the mark that the stack declares it."""
    meta = namespace["metadata"]
    labels = {key: value for key, value in meta["labels"].items() if key != STACK}
    return {**namespace, "metadata": {**meta, "labels": {**labels, PREPARED: meta["labels"][STACK]}}}


def _adopted(manifest: Manifest) -> bool:
    return PATCH_FORCE in manifest["metadata"].get("annotations", {})
