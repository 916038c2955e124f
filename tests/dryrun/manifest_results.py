"""Compare what the API server stores of a manifest with what it stores of its launch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.apiserver import Response
from tests.dryrun.server import Manifest, Server
from tests.rendered_manifests import NAME, NAMESPACE, QUEUE_LABEL, differences, render

_SERVER_SET = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_TOKEN_VOLUME = "kube-api-access-"
_LABELS_OF_CONTROLLER = frozenset({"controller-uid", "job-name"})
"""The names of labels that the API server adds to a Job without labels, and to its pods."""


def original_result(server: Server, manifest: Manifest) -> Response:
    """Create a manifest in a dry run, in the namespace and with the name of its launch."""
    return server.create(_in_namespace(_with_name(manifest)))


def differences_of_launch(
    server: Server, folder: Path, manifest: Manifest, accepted: Response, **settings: Any
) -> list[str]:
    """Return why the API server refuses the launch of an accepted manifest, or how its result differs."""
    launch = render(folder, json.dumps(_with_name(manifest)), naming="fixed", **settings)
    answer = server.apply(_in_namespace(launch))
    if answer.code >= 300:
        return [f"{answer.code}: {answer.body.get('message')}"]
    queued = QUEUE_LABEL in answer.body["metadata"]["labels"]
    return differences(_comparable(accepted.body), _comparable(answer.body), queued=queued)


def _with_name(manifest: Manifest) -> Manifest:
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "generateName"}
    return {**manifest, "metadata": {**metadata, "name": NAME}}


def _in_namespace(body: Manifest) -> Manifest:
    return {**body, "metadata": {**body["metadata"], "namespace": NAMESPACE}}


def _comparable(body: Mapping[str, Any]) -> Manifest:
    """Return an object without what differs between any two dry runs."""
    uid = body["metadata"]["uid"]
    result: Manifest = json.loads(json.dumps({key: value for key, value in body.items() if key != "status"}))
    metadata = result["metadata"]
    for key in _SERVER_SET:
        metadata.pop(key, None)
    labels = metadata.get("labels") or {}
    metadata["labels"] = {
        key: value for key, value in labels.items() if key.rpartition("/")[2] not in _LABELS_OF_CONTROLLER
    }
    if result["kind"] == "Pod":
        _remove_token(result["spec"])
    text: str = json.dumps(result).replace(uid, "uid")
    comparable: Manifest = json.loads(text)
    return comparable


def _remove_token(spec: Manifest) -> None:
    """Remove the volume of the service account's token, whose name is random."""
    parts = [spec, *spec["containers"], *spec.get("initContainers", ())]
    for part, field in ((part, field) for part in parts for field in ("volumes", "volumeMounts") if field in part):
        part[field] = [item for item in part[field] if not item["name"].startswith(_TOKEN_VOLUME)]
