"""The comparison of the registrations of two commits."""

import pytest

from tests.registrations import __main__ as compare

CLAIM = "urn:pulumi:dev::trainstack::kubernetes:core/v1:PersistentVolumeClaim::research/data"


def test_equal_registrations_have_no_difference() -> None:
    """The order of keys is no difference."""
    old = {CLAIM: {"inputs": {"a": 1, "b": 2}, "options": {"protect": True}}}
    new = {CLAIM: {"options": {"protect": True}, "inputs": {"b": 2, "a": 1}}}
    assert not [*compare.differences(old, new)]


def test_a_lost_option_is_a_difference() -> None:
    """The line of the option is marked, under the URN of its resource."""
    old = {CLAIM: {"inputs": {}, "options": {"custom": True, "protect": True}}}
    new = {CLAIM: {"inputs": {}, "options": {"custom": True}}}
    lines = [*compare.differences(old, new)]
    assert lines[:2] == [f"--- old {CLAIM}", f"+++ new {CLAIM}"]
    assert '-  "protect": true' in lines


def test_a_resource_of_one_commit_alone_is_a_difference() -> None:
    """All its lines are marked."""
    lines = [*compare.differences({CLAIM: {"inputs": {}}}, {})]
    assert {line[0] for line in lines[2:]} == {"-", "@"}


@pytest.mark.cluster
def test_a_checkout_is_compared_with_its_commit(capsys: pytest.CaptureFixture[str]) -> None:
    """The program of each side runs against an API server; a tenant's environment needs no operator's release."""
    code = compare.main(["HEAD", "HEAD", "-s", "eidf"])
    assert code == 0
    assert capsys.readouterr().out.startswith("eidf: 12 resources, equal")
