"""The rules about LimitRanges and ResourceQuotas refuse exactly the pods that the API server refuses.

TRAINSTACK_SEARCH_SEED repeats the drawn cases of a seed.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver import ApiServer, api_server
from tests.seeds import chosen_seed
from trainstack.kueue.from_objects import merge_limit_ranges
from trainstack.kueue.limit_ranger import refusals
from trainstack.preflight.resource_quotas import pod_at_creation, read_quota

pytestmark = pytest.mark.cluster

SEED = chosen_seed("TRAINSTACK_SEARCH_SEED")
Body = dict[str, Any]
AMOUNTS = {"cpu": ("250m", "500m", "1", "2"), "memory": ("64Mi", "128Mi", "256Mi"), "example.com/gpu": ("1", "2")}
SCOPES: tuple[Body, ...] = (
    {"scopes": ["NotTerminating"]},
    {"scopes": ["Terminating"]},
    {"scopes": ["BestEffort"]},
    {"scopes": ["NotBestEffort"]},
    {"scopes": ["CrossNamespacePodAffinity"]},
    {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}},
    {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
)
_SECONDS = 60
"""The timeout until the API server applies what was created last."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Return an API server; its controllers do not run, so the tests write the status of ResourceQuotas."""
    folder: Path = tmp_path_factory.mktemp("limits")
    with api_server(folder) as running:
        yield running


def draw_amounts(rng: random.Random, names: tuple[str, ...] = ("cpu", "memory")) -> Body:
    return {name: rng.choice(AMOUNTS[name]) for name in names if rng.random() < 0.5}


def draw_container(rng: random.Random, name: str) -> Body:
    resources = {"requests": draw_amounts(rng), "limits": draw_amounts(rng)}
    if rng.random() < 0.3:
        resources["limits"]["example.com/gpu"] = rng.choice(AMOUNTS["example.com/gpu"])
    return {"name": name, "image": "none", "resources": resources}


def draw_pod(rng: random.Random) -> Body:
    spec: Body = {"restartPolicy": "Never", "containers": [draw_container(rng, "one")]}
    if rng.random() < 0.3:
        spec["containers"].append(draw_container(rng, "two"))
    if rng.random() < 0.3:
        spec["initContainers"] = [draw_container(rng, "first")]
        if rng.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if rng.random() < 0.2:
        spec["activeDeadlineSeconds"] = 60
    if rng.random() < 0.15:
        spec["resources"] = {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}
    return spec


def draw_limit_range(rng: random.Random) -> Body:
    item: Body = {"type": rng.choice(["Container", "Pod"])}
    keys = ["min", "max", "maxLimitRequestRatio"]
    for key in rng.sample(keys, rng.randint(1, 2)):
        item[key] = {"cpu": rng.choice(["2", "3"])} if key == "maxLimitRequestRatio" else draw_amounts(rng)
    if item["type"] == "Container" and rng.random() < 0.5:
        item[rng.choice(["default", "defaultRequest"])] = draw_amounts(rng)
    return {"metadata": {"name": "bounds"}, "spec": {"limits": [item]}}


def draw_quota(rng: random.Random) -> Body:
    scope: Body = rng.choice(SCOPES) if rng.random() < 0.5 else {}
    names = ["pods", "count/pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"]
    names.append("requests.example.com/gpu")
    if scope.get("scopes") == ["BestEffort"]:
        names = ["pods"]
    hard, used = {}, {}
    for name in rng.sample(names, rng.randint(1, min(2, len(names)))):
        resource = name.rpartition(".")[2] if not name.endswith("gpu") else "example.com/gpu"
        amounts = AMOUNTS.get(resource, ("0", "1", "2"))
        hard[name] = rng.choice(amounts)
        used[name] = rng.choice(("0", "0", *amounts))
    return {"metadata": {"name": "team"}, "spec": {"hard": hard, **scope}, "status": {"hard": hard, "used": used}}


def create(server: ApiServer, namespace: str, limit_range: Body | None, quota: Body | None) -> bool:
    """Create a namespace with the objects. Return False if the API server refuses one, such as a contradiction."""
    server.make_namespace(namespace)
    for plural, body in (("limitranges", limit_range), ("resourcequotas", quota)):
        path = f"/api/v1/namespaces/{namespace}/{plural}"
        if body is None:
            continue
        if server.send("POST", path, body).code >= 300:
            return False
        if "status" in body:
            status = {"status": body["status"]}
            merge = "application/merge-patch+json"
            server.send("PATCH", f"{path}/{body['metadata']['name']}/status", status, merge).checked()
    return True


def refusal(server: ApiServer, namespace: str, spec: Body) -> str:
    """Return `limit`, `quota`, `invalid`, or an empty string for an accepted pod."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
    answer = server.send("POST", f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
    if answer.code < 300:
        return ""
    message = answer.body.get("message", "")
    return "invalid" if answer.code == 422 else "quota" if "quota" in message else "limit"


def predict(spec: Body, limit_range: Body | None, quota: Body | None) -> str:
    limits = merge_limit_ranges(limit_range["spec"]["limits"] if limit_range else ())
    if any(refusals(spec, limits)):
        return "limit"
    if quota is None:
        return ""
    read, pod = read_quota(quota), pod_at_creation(spec, limits, {}, "")
    is_refused = pod.unset.keys() & read.hard.keys() or read.exceeded_resources(pod.usage, used=read.used)
    return "quota" if pod.matches(read) and is_refused else ""


def wait_for_caches(server: ApiServer, namespace: str) -> None:
    """Wait until the API server applies a LimitRange and a ResourceQuota that were created after all others."""
    limit = {"metadata": {"name": "bounds"}, "spec": {"limits": [{"type": "Pod", "min": {"cpu": "1"}}]}}
    hard = {"pods": "0"}
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": {"pods": "0"}}}
    assert create(server, f"{namespace}-limit", limit, None)
    assert create(server, f"{namespace}-quota", None, quota)
    spec: Body = {"restartPolicy": "Never", "containers": [{"name": "one", "image": "none"}]}
    end = time.monotonic() + _SECONDS
    while (refusal(server, f"{namespace}-limit", spec), refusal(server, f"{namespace}-quota", spec)) != (
        "limit",
        "quota",
    ):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_the_rules_refuse_the_pods_that_the_api_server_refuses(
    server: ApiServer, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each namespace has a LimitRange, a ResourceQuota or both, and some pods."""
    rng, cases, answers = random.Random(SEED), [], Counter[str]()
    for index in range(count):
        limit_range = draw_limit_range(rng) if rng.random() < 0.6 else None
        quota = draw_quota(rng) if limit_range is None or rng.random() < 0.5 else None
        pods = [draw_pod(rng) for _ in range(4)]
        if create(server, f"drawn-{count}-{index}", limit_range, quota):
            cases.append((f"drawn-{count}-{index}", limit_range, quota, pods))
    wait_for_caches(server, f"last-{count}")
    wrong = []
    for namespace, limit_range, quota, pods in cases:
        for spec in pods:
            answer = refusal(server, namespace, spec)
            answers[answer or "accepted"] += 1
            if answer != "invalid" and answer != predict(spec, limit_range, quota):
                wrong.append((answer, predict(spec, limit_range, quota), spec, limit_range, quota))
    with capsys.disabled():
        print(f"\nnamespace limits: TRAINSTACK_SEARCH_SEED={SEED}, {len(cases)} namespaces: {dict(answers)}")
    assert not wrong, (SEED, len(wrong), wrong[0])
    assert all(answers[kind] * 20 > len(cases) for kind in ("accepted", "limit", "quota"))
