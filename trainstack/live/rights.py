"""Reviews of the rights of the kubeconfig's user. The role `system:basic-user` allows them to every user."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from trainstack.live import paths
from trainstack.live.client import Api, connect, post, run

_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SELF_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_Right = tuple[str, str, str, str, str]
"""Verb, API group, resource, namespace, and the object's name ("" for all objects)."""


def missing_right_errors(manifests: Iterable[Mapping[str, Any]], context: str | None) -> tuple[str, ...]:
    """Return errors about missing rights to create and patch these namespaced objects.

    If the cluster does not support the review, the right counts as granted; the change itself reports a missing one.
    Raises ClusterError as `client.read` does.
    """
    return run(
        _missing_right_errors({right for manifest in manifests for right in _required_rights(manifest)}, context)
    )


def uncreatable_namespace_errors(namespaces: Iterable[str], stack: str, context: str | None) -> tuple[str, ...]:
    """Return an error for each of these missing namespaces that the user may not create.

    Raises ClusterError as `client.read` does.
    """
    rights = {("create", "", "namespaces", "", name) for name in namespaces}
    return run(_uncreatable_namespace_errors(rights, stack, context)) if rights else ()


async def _uncreatable_namespace_errors(rights: set[_Right], stack: str, context: str | None) -> tuple[str, ...]:
    api = await connect(context)
    denied_names = sorted(name for *_, name in await _denied_rights(api, rights))
    user = await _read_user_name(api) if denied_names else ""
    return tuple(
        f"namespace {name} does not exist, and {user} may not create it; ask an administrator of the cluster to create "
        f"it with the roles of the environment: kubectl apply -f rights/{stack}.yaml"
        for name in denied_names
    )


def _required_rights(manifest: Mapping[str, Any]) -> Iterable[_Right]:
    group = manifest["apiVersion"].rpartition("/")[0].partition("/")[0]
    metadata = manifest["metadata"]
    namespace, name = metadata["namespace"], metadata.get("name", "")
    resource = paths.collection_path(manifest["apiVersion"], manifest["kind"], namespace).rpartition("/")[2]
    # Server-side apply, which needs `patch`, requires a name.
    for verb in ("create", "patch") if name else ("create",):
        yield verb, group, resource, namespace, name


async def _missing_right_errors(rights: set[_Right], context: str | None) -> tuple[str, ...]:
    api = await connect(context)
    # A review of all objects of a kind replaces thousands of reviews. A role may also be restricted to names, so the
    # objects of denied kinds are reviewed by name.
    denied_for_kind = await _denied_rights(api, {_without_name(right) for right in rights})
    denied = await _denied_rights(api, {right for right in rights if _without_name(right) in denied_for_kind})
    verbs_by_resource: dict[tuple[str, str, str], list[str]] = {}
    for verb, group, resource, namespace, _ in sorted({_without_name(right) for right in denied}):
        verbs_by_resource.setdefault((group, resource, namespace), []).append(verb)
    if not verbs_by_resource:
        return ()
    user = await _read_user_name(api)
    return tuple(
        f"{user} may not {' or '.join(missing_verbs)} {f'{resource}.{group}'.strip('.')} in namespace {namespace}; the "
        "platform's owner gives a team all rights that it needs (`trainstack:tenants` in the platform's environment)"
        for (group, resource, namespace), missing_verbs in verbs_by_resource.items()
    )


def _without_name(right: _Right) -> _Right:
    return (*right[:4], "")


async def _denied_rights(api: Api, rights: set[_Right]) -> set[_Right]:
    sorted_rights = sorted(rights)
    answers = await asyncio.gather(*(_is_allowed(api, right) for right in sorted_rights))
    return {right for right, allowed in zip(sorted_rights, answers, strict=True) if not allowed}


async def _is_allowed(api: Api, right: _Right) -> bool:
    verb, group, resource, namespace, name = right
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await post(api, _REVIEW, body)
    return not answer.is_success or bool(answer.body.get("status", {}).get("allowed", True))


async def _read_user_name(api: Api) -> str:
    answer = await post(api, _SELF_REVIEW, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    name = answer.body.get("status", {}).get("userInfo", {}).get("username")
    return str(name) if name else "the kubeconfig's user"
