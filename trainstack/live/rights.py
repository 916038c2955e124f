"""What the kubeconfig's user may do, asked of the API server before anything is declared.

Everybody may ask this of themselves (the role `system:basic-user`), also those who have rights in one namespace only.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import kr8s.asyncio

from trainstack.live import paths
from trainstack.live.client import connect, post, run

_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_Question = tuple[str, str, str, str, str]
"""Verb, API group, resource, namespace; and the object's name, "" for any."""


def lacking(manifests: Iterable[Mapping[str, Any]], context: str | None) -> tuple[str, ...]:
    """Name every right that is missing to declare these namespaced objects, with who can give it.

    A cluster that does not answer the question counts as one that allows it: the change itself will tell.
    Raises ClusterError as `client.read` does.
    """
    return run(_lacking({each for manifest in manifests for each in _questions(manifest)}, context))


def uncreatable(namespaces: Iterable[str], stack: str, context: str | None) -> tuple[str, ...]:
    """Name each of these missing namespaces of a stack that the user may not create, with who can.

    Raises ClusterError as `client.read` does.
    """
    asked = {("create", "", "namespaces", "", name) for name in namespaces}
    return run(_uncreatable(asked, stack, context)) if asked else ()


async def _uncreatable(asked: set[_Question], stack: str, context: str | None) -> tuple[str, ...]:
    api = await connect(context)
    denied = sorted(name for *_, name in await _denied(api, asked))
    who = await _who(api) if denied else ""
    return tuple(
        f"namespace {name} does not exist, and {who} may not create it; an administrator of the cluster creates "
        f"it with the roles of the environment: kubectl apply -f rights/{stack}.yaml"
        for name in denied
    )


def _questions(manifest: Mapping[str, Any]) -> Iterable[_Question]:
    group = manifest["apiVersion"].rpartition("/")[0].partition("/")[0]
    metadata = manifest["metadata"]
    namespace, name = metadata["namespace"], metadata.get("name", "")
    resource = paths.collection(manifest["apiVersion"], manifest["kind"], namespace).rpartition("/")[2]
    # A name that the server makes up is no server-side apply, which is what needs `patch`.
    for verb in ("create", "patch") if name else ("create",):
        yield verb, group, resource, namespace, name


async def _lacking(objects: set[_Question], context: str | None) -> tuple[str, ...]:
    api = await connect(context)
    # Of any object first: there may be thousands of a kind. A role may also name those that it is for.
    kinds = await _denied(api, {_of_any(each) for each in objects})
    denied = await _denied(api, {each for each in objects if _of_any(each) in kinds})
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for verb, group, resource, namespace, _ in sorted({_of_any(each) for each in denied}):
        verbs.setdefault((group, resource, namespace), []).append(verb)
    if not verbs:
        return ()
    who = await _who(api)
    return tuple(
        f"{who} may not {' or '.join(missing)} {f'{resource}.{group}'.strip('.')} in namespace {namespace}; the "
        "platform's owner gives a team all rights that it needs (`trainstack:tenants` in the platform's environment)"
        for (group, resource, namespace), missing in verbs.items()
    )


def _of_any(question: _Question) -> _Question:
    verb, group, resource, namespace, _ = question
    return verb, group, resource, namespace, ""


async def _denied(api: kr8s.asyncio.Api, questions: set[_Question]) -> set[_Question]:
    asked = sorted(questions)
    answers = await asyncio.gather(*(_may(api, each) for each in asked))
    return {question for question, allowed in zip(asked, answers, strict=True) if not allowed}


async def _may(api: kr8s.asyncio.Api, question: _Question) -> bool:
    verb, group, resource, namespace, name = question
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await post(api, _REVIEW, body)
    return not answer.found or bool(answer.body.get("status", {}).get("allowed", True))


async def _who(api: kr8s.asyncio.Api) -> str:
    answer = await post(api, _WHO, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    name = answer.body.get("status", {}).get("userInfo", {}).get("username")
    return str(name) if name else "the kubeconfig's user"
