"""Requests that cases send themselves."""

import json

import httpx

from bench.cases import operators
from bench.cluster_reads import delete_page, jobs_ended


def test_objects_are_deleted_in_pages_until_there_is_none() -> None:
    """The labels are those of the case only."""
    left = ["a", "b", "c"]
    queries: list[httpx.QueryParams] = []

    def respond(request: httpx.Request) -> httpx.Response:
        queries.append(request.url.params)
        if request.method == "DELETE":
            del left[:2]
        return httpx.Response(200, json={"items": left[:2]})

    with httpx.Client(base_url="http://server", transport=httpx.MockTransport(respond)) as api:
        assert [delete_page(api, "/jobs", "a=b") for _ in range(3)] == [False, False, True]
    assert {(query["labelSelector"], query["limit"]) for query in queries} == {("a=b", "100")}


def test_probes_are_sent_to_the_path_of_their_own_version() -> None:
    """The API server refuses an object of another version. Both webhooks must accept their probe."""
    paths: list[str] = []
    codes = [201, 500, 201, 201]

    def respond(request: httpx.Request) -> httpx.Response:
        assert request.url.query == b"dryRun=All"
        assert f"/apis/{json.loads(request.content)['apiVersion']}/" in request.url.path
        paths.append(request.url.path)
        return httpx.Response(codes[len(paths) - 1])

    with httpx.Client(base_url="http://server", transport=httpx.MockTransport(respond)) as api:
        assert not operators.answers(api)
        assert operators.answers(api)
    assert paths[2:] == [
        "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
        "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs",
    ]


def test_a_round_starts_after_the_earlier_runs() -> None:
    """A suspended Job, and one without a condition yet, are active."""
    ended = [{"status": {"conditions": [{"type": kind, "status": "True"}]}} for kind in ("Complete", "Failed")]
    lists = [ended, [*ended, {}], [{"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}]]

    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"items": lists.pop(0)})

    with httpx.Client(base_url="http://server", transport=httpx.MockTransport(respond)) as api:
        assert [jobs_ended(api, "lab") for _ in range(3)] == [True, False, False]
