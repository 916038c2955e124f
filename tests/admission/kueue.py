"""The real Kueue on a local cluster, and its API: nothing else is installed, and no pod of a case ever runs."""

import copy
import ssl
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import yaml

from tests.cluster.people import Person
from tests.cluster.project import ROOT
from tests.definitions import FILES, definition
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, operators
from trainstack.local_cluster.state_folder import Layout
from trainstack.platform import probes
from trainstack.platform.operators.install import stage_manifests
from trainstack.platform.operators.kueue import CONFIG_KEY, CONFIG_MAP, CONTROLLER, NAMESPACE, kueue
from trainstack.platform.operators.release import read_release
from trainstack.runs.status.launch_kinds import KINDS as OF_LAUNCHES
from trainstack.settings.loading.load import load
from trainstack.settings.sections.operators import ControllerResources, KueueConfiguration, Manifest
from trainstack.stack_objects.inputs import CACHE_FOLDER, release_path

Body = dict[str, Any]
REQUESTS_PER_SECOND = 500
"""Of Kueue's client. Its release has 50, which is all that a batch of cases would wait for."""
COLLECTION_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "LimitRange": "/api/v1/namespaces/{namespace}/limitranges",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "PyTorchJob": "/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets",
    "TrainJob": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs",
    "JAXJob": "/apis/kubeflow.org/v1/namespaces/{namespace}/jaxjobs",
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/{namespace}/mpijobs",
    "RayJob": "/apis/ray.io/v1/namespaces/{namespace}/rayjobs",
    "TrainingRuntime": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainingruntimes",
    "Topology": "/apis/kueue.x-k8s.io/v1beta2/topologies",
    "ResourceFlavor": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "Cohort": "/apis/kueue.x-k8s.io/v1beta2/cohorts",
    "ClusterQueue": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "LocalQueue": "/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/localqueues",
    "Workload": "/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads",
    "WorkloadPriorityClass": "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses",
}


class InvalidObjectError(Exception):
    """The API server or a webhook has rejected an object as invalid."""


class Api:
    """A client of the API server that sends requests from many threads at once."""

    def __init__(self, cluster: LocalCluster) -> None:
        certs = Layout.of(cluster.state).certs
        tls = ssl.create_default_context(cafile=str(certs / "ca.crt"))
        tls.load_cert_chain(certs / "admin.crt", certs / "admin.key")
        limits = httpx.Limits(max_connections=16, max_keepalive_connections=16)
        self._client = httpx.Client(base_url=cluster.server, verify=tls, timeout=30, limits=limits)
        self._pool = ThreadPoolExecutor(12)

    def create(self, bodies: Iterable[Body]) -> None:
        """Create objects in no order. Raises Refused with the fault of one of them."""
        list(self._pool.map(self._create, bodies))

    def _ask(self, method: str, path: str, body: Body | None = None) -> httpx.Response:
        """Send a request; retry it if the connection is closed, or if the server or a webhook is too slow."""
        end = time.monotonic() + 60
        while True:
            late = time.monotonic() > end
            try:
                answer = self._client.request(method, path, json=body)
            except httpx.TransportError:
                if late:
                    raise
            else:
                if late or not answer.is_server_error:
                    return answer
            time.sleep(0.2)

    def _create(self, body: Body) -> None:
        answer = self._ask("POST", _folder(body), body)
        if answer.status_code != httpx.codes.CONFLICT and answer.is_error:
            raise InvalidObjectError(
                f"{body['kind']} {body['metadata']['name']}: {answer.json().get('message', answer.text)}"
            )

    def delete(self, bodies: Iterable[Body], *, with_owned: bool = False) -> None:
        """Delete objects in no order; missing objects are ignored.

        `with_owned`: also what they own, which the API server leaves of a Job by default.
        """
        policy = "?propagationPolicy=Background" if with_owned else ""

        def gone(body: Body) -> None:
            answer = self._ask("DELETE", f"{_folder(body)}/{body['metadata']['name']}{policy}")
            assert answer.is_success or answer.status_code == httpx.codes.NOT_FOUND, answer.text

        list(self._pool.map(gone, bodies))

    def list_all(self, kind: str) -> list[Body]:
        """Return all live objects of a kind in all namespaces."""
        folder = COLLECTION_PATHS[kind].replace("/namespaces/{namespace}", "")
        answer = self._ask("GET", folder)
        assert answer.is_success, answer.text
        return [{**body, "kind": kind} for body in answer.json()["items"]]

    def read(self, body: Body) -> Body:
        """Return an object, or {} if it does not exist."""
        answer = self._ask("GET", f"{_folder(body)}/{body['metadata']['name']}")
        return dict(answer.json()) if answer.is_success else {}


def _folder(body: Body) -> str:
    return COLLECTION_PATHS[body["kind"]].format(namespace=body["metadata"].get("namespace"))


KINDS = {
    "batch/job": None,
    "kubeflow.org/pytorchjob": ("trainingOperator", "pytorchjobs.kubeflow.org"),
    "jobset.x-k8s.io/jobset": ("jobset", "jobsets.jobset.x-k8s.io"),
    "trainer.kubeflow.org/trainjob": ("trainer", "trainjobs.trainer.kubeflow.org"),
    "kubeflow.org/jaxjob": ("trainingOperator", "jaxjobs.kubeflow.org"),
    **{OF_LAUNCHES[kind].framework: None for kind in FILES},
}
"""What Kueue manages here, with the operator and the definition that the kind comes from, unless it is Kubernetes' own
or from the modules that Kueue requires. The definitions are enough for Kueue to make Workloads; no operator runs."""


def install(cluster: LocalCluster, **configuration: Any) -> Api:
    """The pinned Kueue, ready. `configuration`: fields of KueueConfiguration."""
    owner = Person(cluster.kubeconfig)
    pinned = load(ROOT, "dev").operators.kueue
    assert pinned is not None
    requests = ControllerResources(cpu="50m", memory="256Mi")
    fields = KueueConfiguration(frameworks=tuple(KINDS), **configuration)
    wanted = pinned.model_copy(update={"requests": requests, "configuration": fields})
    ensure_images(operators(["kueue"]), cluster.registry, lambda _: None)
    release = read_release(release_path(pinned.manifest, ROOT), pinned.manifest.sha256, ROOT / CACHE_FOLDER)
    objects = stage_manifests(
        kueue([_with_test_settings(body) for body in release], wanted), "admission", pinned.manifest.version
    )
    # Kueue looks for the kinds that it manages when it starts.
    for stage in (_definitions(), objects.crds, objects.after_crds()):
        done = owner.kubectl("apply", "--server-side", "--force-conflicts", body=make_list(stage))
        assert done.code == 0, done.text
    done = owner.kubectl("rollout", "status", "-n", NAMESPACE, f"deployment/{CONTROLLER}", "--timeout=110s")
    assert done.code == 0, done.text
    wait_until("Kueue's webhooks answer", lambda: owner.kubectl(*_DRY_RUN, body=probes.kueue("admission")).code == 0)
    return Api(cluster)


def _definitions() -> list[Body]:
    """Return the definitions of the kinds and of the types to which they refer."""
    templates = yaml.safe_load((ROOT / "defaults.yaml").read_text(encoding="utf-8"))["operators"]
    # Kueue watches the clusters of RayJobs, too.
    found = [*map(definition, FILES), definition("RayJob", "config/crd/bases/ray.io_rayclusters.yaml")]
    for kind in filter(None, KINDS.values()):
        pinned = Manifest.model_validate(templates[kind[0]]["manifest"])
        names = {kind[1], "trainingruntimes.trainer.kubeflow.org", "clustertrainingruntimes.trainer.kubeflow.org"}
        release = read_release(release_path(pinned, ROOT), pinned.sha256, ROOT / CACHE_FOLDER)
        found += [
            body for body in release if body["kind"] == "CustomResourceDefinition" and body["metadata"]["name"] in names
        ]
    return found


_DRY_RUN = ("create", "--dry-run=server")


def _with_test_settings(body: Body) -> Body:
    """Return Kueue's object with a higher rate limit, without leader election and liveness probes.

    Kueue has one replica. With leader election it would exit if a slow machine delayed the renewal of its lease.
    """
    if body["kind"] == "ConfigMap" and body["metadata"]["name"] == CONFIG_MAP:
        configured = yaml.safe_load(body["data"][CONFIG_KEY])
        configured["clientConnection"] = {"qps": REQUESTS_PER_SECOND, "burst": 2 * REQUESTS_PER_SECOND}
        configured["leaderElection"]["leaderElect"] = False
        return {**body, "data": {**body["data"], CONFIG_KEY: yaml.safe_dump(configured)}}
    if body["kind"] == "Deployment":
        body = copy.deepcopy(body)
        for container in body["spec"]["template"]["spec"]["containers"]:
            del container["livenessProbe"]
    return body


def make_list(bodies: Iterable[Body]) -> Body:
    """Return a list with these objects."""
    return {"apiVersion": "v1", "kind": "List", "items": list(bodies)}


def wait_until(description: str, poll: Callable[[], Any], seconds: float = 60, pause: float = 0.05) -> Any:
    """Call `poll` until its result is true, and return it; the message of a timeout has the name of the condition."""
    end = time.monotonic() + seconds
    while not (result := poll()):
        assert time.monotonic() < end, f"not within {seconds} s: {description}"
        time.sleep(pause)
    return result
