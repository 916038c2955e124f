"""Admission policies that complement an environment's roles with restrictions that RBAC cannot express.

RBAC restricts objects, not fields. A user who may patch a namespace could lower its Pod Security level, one who may
create a volume could mount the node's root folder, and one who may send a dry run could create the object itself.
Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from trainstack.objects.labels import MANAGED_BY, OWNER, POD_SECURITY, Manifest
from trainstack.platform import probes

API = "admissionregistration.k8s.io"
_LABELS_EXPRESSION = "has({0}.metadata.labels) ? {0}.metadata.labels : {{}}"
_SAME_LEVEL_EXPRESSION = (
    f'variables.after.all(key, !key.startsWith("{POD_SECURITY}") || '
    "key in variables.before && variables.before[key] == variables.after[key]) && "
    f'variables.before.all(key, !key.startsWith("{POD_SECURITY}") || key in variables.after)'
)


def admission_policies(
    stack: str, platform_manifests: Iterable[Manifest], probed_kinds: Iterable[tuple[str, str]]
) -> list[Manifest]:
    """Build the policies of an environment and their bindings.

    `platform_manifests`: the objects of its platform. `probed_kinds`: the kinds (API group, plural) of the probes.
    """
    manifests = list(platform_manifests)
    namespaces = sorted(manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "Namespace")
    folders = {
        manifest["metadata"]["name"]: _folder_of_node(manifest["spec"])
        for manifest in manifests
        if manifest["kind"] == "PersistentVolume"
    }
    result = []
    if namespaces:
        result += _pod_security_policy(stack, namespaces)
    if folders:
        result += _host_path_policy(stack, folders)
    if kinds := sorted(set(probed_kinds)):
        result += _probe_policy(stack, kinds)
    return result


def restricted_objects(policies: Iterable[Manifest]) -> frozenset[tuple[str, str, str]]:
    """Return the objects that the policies restrict, as API group, resource and name."""
    return frozenset(
        (group, resource, name)
        for policy in policies
        if policy["kind"] == "ValidatingAdmissionPolicy"
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule["resourceNames"]
    )


def _folder_of_node(volume_spec: Mapping[str, Any]) -> str:
    """Return the folder of a node that a persistent volume is; empty for other sources."""
    source = volume_spec.get("hostPath") or volume_spec.get("local") or {}
    return str(source.get("path", ""))


def _pod_security_policy(stack: str, namespaces: list[str]) -> list[Manifest]:
    """Return a policy against changes of Pod Security levels by users who may not patch or update any namespace."""
    return _policy(
        f"trainstack-{stack}-pod-security",
        [_resource_rule("", "namespaces", ["UPDATE"], namespaces)],
        exempt_rights=[("", "namespaces", "patch"), ("", "namespaces", "update")],
        variables={"before": _LABELS_EXPRESSION.format("oldObject"), "after": _LABELS_EXPRESSION.format("object")},
        expression=_SAME_LEVEL_EXPRESSION,
        message=(
            f"labels with the prefix {POD_SECURITY} must not change; to set another Pod Security level, ask a cluster "
            f"administrator to apply a new rights/{stack}.yaml"
        ),
    )


def _host_path_policy(stack: str, folders: Mapping[str, str]) -> list[Manifest]:
    """Return a policy against other host paths of the volumes by users who may not create or update any volume."""
    return _policy(
        f"trainstack-{stack}-host-paths",
        [_resource_rule("", "persistentvolumes", ["CREATE", "UPDATE"], sorted(folders))],
        exempt_rights=[("", "persistentvolumes", "create"), ("", "persistentvolumes", "update")],
        variables={"folders": json.dumps(dict(sorted(folders.items())))},
        expression=(
            "variables.folders[object.metadata.name] == (has(object.spec.hostPath) ? object.spec.hostPath.path : "
            "has(object.spec.local) ? object.spec.local.path : '')"
        ),
        message=(
            f"the volume must have the folder of a node, or none, as in rights/{stack}.yaml; to use another folder, "
            f"ask a cluster administrator to apply a new rights/{stack}.yaml"
        ),
    )


def _probe_policy(stack: str, kinds: Iterable[tuple[str, str]]) -> list[Manifest]:
    """Return a policy against storing the probes, which are only sent as dry runs."""
    return _policy(
        f"trainstack-{stack}-probes",
        [_resource_rule(group, resource, ["CREATE", "UPDATE"], [probes.NAME]) for group, resource in kinds],
        exempt_rights=[],
        variables={},
        expression="has(request.dryRun) && request.dryRun",
        message=f"objects named {probes.NAME} must be sent as a dry run",
    )


def _resource_rule(group: str, resource: str, operations: list[str], names: list[str]) -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": operations,
        "resources": [resource],
        "resourceNames": names,
    }


def _policy(
    name: str,
    resource_rules: list[Manifest],
    *,
    exempt_rights: list[tuple[str, str, str]],
    variables: Mapping[str, str],
    expression: str,
    message: str,
) -> list[Manifest]:
    """Build a policy and its binding.

    Args:
        name: the name of both objects.
        resource_rules: the objects and operations that the policy applies to.
        exempt_rights: rights (API group, resource, verb) on objects of any name; users with one of them are exempt.
        variables: CEL expressions by their names in `expression`.
        expression: the CEL condition of valid requests.
        message: the error of other requests.

    """
    conditions = [
        {
            "name": f"may-not-{verb}-any",
            "expression": f"!authorizer.group('{group}').resource('{resource}').check('{verb}').allowed()",
        }
        for group, resource, verb in exempt_rights
    ]
    cel_variables = [{"name": key, "expression": text} for key, text in variables.items()]

    def policy_object(kind: str, spec: dict[str, Any]) -> Manifest:
        meta = {"name": name, "labels": {MANAGED_BY: OWNER}}
        return {"apiVersion": f"{API}/v1", "kind": kind, "metadata": meta, "spec": spec}

    return [
        policy_object(
            "ValidatingAdmissionPolicy",
            {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": resource_rules},
                **({"matchConditions": conditions} if conditions else {}),
                **({"variables": cel_variables} if cel_variables else {}),
                "validations": [{"expression": expression, "message": message, "reason": "Forbidden"}],
            },
        ),
        policy_object("ValidatingAdmissionPolicyBinding", {"policyName": name, "validationActions": ["Deny"]}),
    ]
