"""The rights that an environment's people need: who deploys it, and who uses it day by day. Pure.

A role of each is made from what the environment declares and from what the commands read. What a role cannot be made
smaller than is told in docs/decisions/0013-least-privilege.md.
"""

from collections.abc import Iterable, Mapping

from checks.cluster import paths
from checks.cluster.admission import CLUSTER_WIDE, NAMESPACED
from checks.cluster.environment import version_of
from checks.cluster.identity import SYSTEM
from checks.cluster.snapshot import run_namespaces
from checks.kinds import LAUNCHED_AS
from checks.live import CLUSTER_SCOPED
from manifests import probes, secrets
from manifests.kueue import CONFIG_KEY
from manifests.labels import PATCH_FORCE, Manifest
from manifests.retained import retained
from manifests.rights import (
    API,
    DECLARE,
    RUNTIMES,
    WATCH,
    Grant,
    as_roles,
    day_two,
    deleted,
    found,
    grants,
    guarded,
    training,
)
from settings.model import Settings
from workloads import render
from workloads.render import Inputs

DEPLOYER, RESEARCHER = "deployer", "researcher"
"""`pulumi preview`, `up`, `refresh`, `trainstack destroy`, `doctor`; and what people do between two of them."""
_KUEUE = "kueue.x-k8s.io"


def roles_of(settings: Settings, inputs: Inputs) -> list[Manifest]:
    """The roles of an environment, `trainstack-<environment>-<deployer|researcher>`, in the order of their names.

    Raises OperatorError or WorkloadError as `render.platform` does.
    """
    if "platform" in settings.environment.halves:
        declared = render.platform(settings, inputs)
    else:
        declared = [secrets.secret(each, settings.stack) for each in settings.secrets.secrets]
    return [
        *as_roles(role_name(settings.stack, DEPLOYER), deployer(settings, declared)),
        *as_roles(role_name(settings.stack, RESEARCHER), researcher(settings, declared)),
    ]


def role_name(stack: str, who: str) -> str:
    """The name of a role."""
    return f"trainstack-{stack}-{who}"


def deployer(settings: Settings, declared: Iterable[Manifest]) -> set[Grant]:
    """What the engine and the program ask for.

    A role cannot stand in a namespace before the namespace does: in one that this stack makes its deployer has the
    rights that a role for all namespaces gives. In one that is there before, also one that is adopted, a role of that
    namespace is enough.
    """
    objects = list(declared)
    made = {_name(each) for each in objects if each["kind"] == "Namespace" and not _adopted(each)}
    keeps = {(each.kind, each.namespace, each.name) for each in retained(settings, objects)}
    result: set[Grant] = set()
    for each in objects:
        namespace = each["metadata"].get("namespace")
        where = "" if namespace in made else namespace or ""
        result |= _declared(each, where, goes=(each["kind"], namespace, _name(each)) not in keeps)
    result |= _asked(settings) | _found(settings) | _looked_at(settings, objects)
    for namespace, kinds in _trained(settings).items():
        claims = {
            each.name: not (each.retain or each.protect)
            for each in settings.storage.volumes
            if each.namespace == namespace
        }
        result |= training("" if namespace in made else namespace, kinds, claims)
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
    result |= grants("apps", "deployments", ("list",))
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
    """The question whether operators' webhooks answer: a dry run, by no name that a role could tell it by."""
    installs = settings.operators.installs if "platform" in settings.environment.halves else ()
    asked = [probes.BY_OPERATOR[name](settings.stack) for name in installs]
    return {
        grant for each in asked for grant in grants(*_kind(each), ("create",), each["metadata"].get("namespace", ""))
    }


def _declared(manifest: Manifest, where: str, *, goes: bool) -> set[Grant]:
    """What it takes to declare one object of the platform, and if it goes with the stack, to take it away."""
    kind, name = _kind(manifest), [_name(manifest)]
    result = grants(*kind, DECLARE, where, name)
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
        result.setdefault(run.namespace, set()).add(LAUNCHED_AS.get(run.kind, run.kind))
    return result


def _kind(manifest: Manifest) -> tuple[str, str]:
    """API group and plural."""
    return _listed(manifest["kind"], manifest["apiVersion"])


def _listed(kind: str, api_version: str) -> tuple[str, str]:
    return api_version.rpartition("/")[0], paths.collection(api_version, kind, None).rpartition("/")[2]


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def _adopted(manifest: Manifest) -> bool:
    return PATCH_FORCE in manifest["metadata"].get("annotations", {})
