"""Which errors of a creation say that the API server refused it: the texts of the provider with answers of a proxy."""

import pytest

from trainstack.components.creation_errors import is_refusal

PREFIX = 'resource "urn:pulumi:dev::p::kubernetes:batch/v1:Job::a" was not successfully created by the Kubernetes API '


@pytest.mark.parametrize(
    "message",
    [
        'jobs.batch "a" is forbidden: exceeded quota: few, requested: count/jobs.batch=1',
        'jobs.batch is forbidden: User "ann" cannot create resource "jobs" in API group "batch"',
        "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
        'Job.batch "a" is invalid: spec.parallelism: Invalid value: -1',
        '"" is invalid: patch: Invalid value',
        'admission webhook "vjob.kb.io" denied the request: context deadline exceeded',
        "Server-Side Apply field conflict detected. See https://www.pulumi.com for troubleshooting help.\nThe resource",
        'jobs.batch "a" already exists',
        'namespaces "lab" not found',
        'no matches for kind "RayJob" in version "ray.io/v1"',
        "failed to create typed patch object (lab/a; batch/v1, Kind=Job): .spec.x: field not declared in schema",
        'Job in version "v1" cannot be handled as a Job: json: cannot unmarshal string',
        "the server rejected our request due to an error in our request",
        "the server could not find the requested resource",
        "the server responded with the status code 413 but did not return more information",
        "Unauthorized",
    ],
)
def test_a_refusal(message: str) -> None:
    """The claim of the launch is released."""
    assert is_refusal(f"{PREFIX}server: {message}")


@pytest.mark.parametrize(
    "message",
    [
        'Patch "https://lab/apis/batch/v1/namespaces/lab/jobs/a?fieldManager=trainstack": EOF',
        'Patch "https://lab/apis": read tcp 10.0.0.1:1->10.0.0.2:443: read: connection reset by peer',
        'Patch "https://lab/apis": http2: client connection lost',
        "context deadline exceeded",
        "Timeout: request did not complete within requested timeout - context deadline exceeded",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
        "etcdserver: request timed out",
        'Internal error occurred: failed calling webhook "x": failed to call webhook: jobs "a" is forbidden: no',
        'Internal error occurred: admission webhook "x" denied the request',
        'an error on the server ("jobs.batch is invalid: ") has prevented the request from succeeding',
        "the server is currently unable to handle the request",
        "the server has received too many requests and has asked us to try again later",
        "the server responded with the status code 408 but did not return more information",
        "the server responded with the status code 503 but did not return more information",
        "unknown",
        "",
    ],
)
def test_the_request_may_still_take_effect(message: str) -> None:
    """The claim stays, also after a text that is not known."""
    assert not is_refusal(f"{PREFIX}server: {message}")


def test_an_error_that_is_not_the_api_server_s() -> None:
    """For example of the engine, or of a hook."""
    assert not is_refusal('jobs.batch "a" is forbidden: no')
    assert not is_refusal('resource "urn" was successfully created, but failed to become live: a is invalid: no')
