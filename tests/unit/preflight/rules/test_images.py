"""Users of images with which the kubelet starts no restricted pod."""

import pytest

from tests.unit.make import make_run, make_runtime_run
from trainstack.preflight.rules.images import dockerfile_user, has_image_user, user_problem


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("FROM a\nUSER root\n", "root"),
        ("FROM a\nUSER 0\nRUN x\nUSER 1000:1000\n", "1000:1000"),
        ("FROM a\nuser app\n", "app"),
        ("FROM a\n", None),
        ("FROM a AS build\nUSER root\nFROM b\n", None),
        ("ARG ID\nFROM a\nUSER ${ID}\n", None),
        ("FROM a\n# USER root\nRUN echo USER root\n", None),
    ],
)
def test_the_last_stage_of_a_dockerfile_sets_the_user(text: str, user: str | None) -> None:
    """Without a USER, or with a variable, the user is not known."""
    assert dockerfile_user(text) == user


@pytest.mark.parametrize(
    ("user", "is_problem"),
    [
        *((user, True) for user in ("", "root", "0", "0:0", "00", "app", "app:100")),
        *((user, False) for user in ("1", "1000:0")),
    ],
)
def test_only_numbers_other_than_zero_are_known_not_to_be_root(user: str, is_problem: bool) -> None:
    assert bool(user_problem(user)) is is_problem


def test_only_restricted_pods_without_a_user_of_their_own_have_the_images() -> None:
    assert has_image_user(make_run())
    assert not has_image_user(make_run(run_as_user=7))
    assert not has_image_user(make_run(security="baseline"))
    assert not has_image_user(make_runtime_run())
    assert not has_image_user(make_run(pod_patch={"spec": {"securityContext": {"runAsNonRoot": False}}}))
