"""Reads of live objects in this process: tests poll, and each start of kubectl takes a tenth of a second of a core.

Who asks is who the kubeconfig names, as with kubectl.
"""

import base64
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import yaml

Body = dict[str, Any]
_RETRY_SECONDS = 60
"""How long a request is repeated that the server answers with 429 and Retry-After."""
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NAMES = "application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadataList,application/json"


@dataclass(frozen=True)
class _Resource:
    """A resource of the API."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    listable: bool

    @property
    def full_name(self) -> str:
        """The plural with the group, as `kubectl api-resources` prints it."""
        group, slash, _ = self.api_version.rpartition("/")
        return f"{self.plural}.{group}" if slash else self.plural

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of an object or a list; without a namespace, of all namespaces."""
        parts = [
            "api" if "/" not in self.api_version else "apis",
            self.api_version,
            *(["namespaces", namespace] if namespace and self.namespaced else []),
            self.plural,
            *([name] if name else []),
        ]
        return "/" + "/".join(parts)


@dataclass
class Reader:
    """Reads from an API server as the user of a kubeconfig."""

    client: httpx.Client
    resources: dict[str, _Resource] = field(default_factory=dict)
    """The resources, by every name that kubectl accepts."""

    def get(self, kind: str, name: str, namespace: str) -> Body:
        """Return an object, or {} if it does not exist."""
        answer = self._ask(self._resource(kind).path(namespace, name))
        # For a path that is not served, the response is text.
        absent = answer.status_code == httpx.codes.NOT_FOUND and "json" in answer.headers["Content-Type"]
        return {} if absent else _plain(_checked(answer))

    def list(self, kind: str, namespace: str = "", selector: str = "", *, managed_fields: bool = False) -> list[Body]:
        """Return all objects with these labels."""
        resource = self._resource(kind)
        answer = self._ask(resource.path(namespace), **({"labelSelector": selector} if selector else {}))
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        found = [{**typed, **body} for body in _checked(answer)["items"]]
        return found if managed_fields else [_plain(body) for body in found]

    def log(self, pod: str, namespace: str) -> str:
        """Return the log of a pod's only container; empty before it starts."""
        answer = self._ask(f"{self._resource('pods').path(namespace, pod)}/log", accept="*/*")
        # The container has not started, or the pod was deleted.
        absent = answer.status_code in (httpx.codes.BAD_REQUEST, httpx.codes.NOT_FOUND)
        return "" if absent else answer.raise_for_status().text

    def names(self, selector: str, without: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
        """Yield kind, namespace (empty if cluster-scoped) and name of all objects with these labels.

        `without`: prefixes of the excluded resources, as `kubectl api-resources -o name` prints them.
        """
        self._discover()
        for resource in {known for known in self.resources.values() if known.listable}:
            if not resource.full_name.startswith(without):
                parameters = {"labelSelector": selector} if selector else {}
                answer = self._ask(resource.path(""), accept=_NAMES, **parameters)
                # The definition may have been deleted meanwhile.
                if answer.status_code != httpx.codes.NOT_FOUND:
                    # An empty list of names has null.
                    for body in _checked(answer)["items"] or ():
                        yield resource.kind, body["metadata"].get("namespace", ""), body["metadata"]["name"]

    def _discover(self) -> None:
        self.resources = _discovered([self._ask(path, accept=_DISCOVERY) for path in ("/api", "/apis")])

    def _resource(self, name: str) -> _Resource:
        kind = name.lower()
        if kind not in self.resources:
            # The definition may have been created meanwhile.
            self._discover()
        assert kind in self.resources, f"the server has no resource {kind}"
        return self.resources[kind]

    def _ask(self, path: str, accept: str = "application/json", **parameters: str) -> httpx.Response:
        def ask() -> httpx.Response:
            return self.client.get(path, params=parameters, headers={"Accept": accept})

        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                answer = ask()
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # The server has closed the idle connection.
                answer = ask()
            # The server of a definition that was created again answers so until its storage is ready.
            if answer.status_code != httpx.codes.TOO_MANY_REQUESTS or time.monotonic() > deadline:
                return answer
            time.sleep(float(answer.headers.get("Retry-After", "1")))


def reader(kubeconfig: Path) -> Reader:
    """Return a reader with the current content of a kubeconfig: tests rewrite the file."""
    return _reader(kubeconfig.read_text())


@cache
def _reader(text: str) -> Reader:
    config = yaml.safe_load(text)
    (context,) = (entry["context"] for entry in config["contexts"] if entry["name"] == config["current-context"])
    (cluster,) = (entry["cluster"] for entry in config["clusters"] if entry["name"] == context["cluster"])
    (user,) = (entry["user"] for entry in config["users"] if entry["name"] == context["user"])
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
            file.flush()
            tls.load_cert_chain(file.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return Reader(httpx.Client(base_url=cluster["server"], verify=tls, headers=headers, timeout=30, trust_env=False))


def _discovered(answers: list[httpx.Response]) -> dict[str, _Resource]:
    """Return the resources by name. A name without a group refers to the first group that the server lists."""
    found: dict[str, _Resource] = {}
    for answer in answers:
        for group in _checked(answer)["items"]:
            # The first version is the preferred one.
            for version in group["versions"]:
                name = group["metadata"].get("name", "")
                for resource in version.get("resources", ()):
                    for alias in _names(resource, name):
                        found.setdefault(alias, _of(resource, name, version["version"]))
    return found


def _of(body: Mapping[str, Any], group: str, version: str) -> _Resource:
    return _Resource(
        api_version=f"{group}/{version}" if group else version,
        kind=body["responseKind"]["kind"],
        plural=body["resource"],
        namespaced=body["scope"] == "Namespaced",
        listable="list" in body["verbs"],
    )


def _names(body: Mapping[str, Any], group: str) -> list[str]:
    names = [body["resource"], body.get("singularResource", ""), *body.get("shortNames", ())]
    short = [name for name in names if name]
    return [*short, *(f"{name}.{group}" for name in short)] if group else short


def _checked(answer: httpx.Response) -> Body:
    assert answer.is_success, f"{answer.request.url}: {answer.status_code} {answer.text}"
    return dict(answer.json())


def _plain(body: Body) -> Body:
    """Return the object without managed fields, as kubectl prints it."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {**body, "metadata": metadata}
