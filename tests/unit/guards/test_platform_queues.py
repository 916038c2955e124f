"""A team's runs may use only the queues that the platform's stack exports."""

import pytest

from tests.unit.make import make_run, make_settings
from trainstack.guards.platform_queues import unknown_queue_errors
from trainstack.settings.sections.environment import Environment

PLATFORM = "organization/trainstack/platform"


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        pytest.param(["research/research", "research/night"], [], id="exists"),
        pytest.param(["research/night"], ["valid names: night"], id="others exist"),
        pytest.param(["research/reserch", "other/research"], ["did you mean reserch?"], id="misspelt"),
        pytest.param([], ["no name is valid here"], id="none exist"),
    ],
)
def test_a_queue_that_the_platform_does_not_have_is_refused(queues: list[str], expected: list[str]) -> None:
    """The message has the run's path, the platform's stack and the remedy. A run without a queue is accepted."""
    settings = make_settings(
        make_run(), make_run(name="free", queue=None), environment=Environment(layers=("training",), platform=PLATFORM)
    )
    assert unknown_queue_errors(settings, queues) == tuple(
        f"workloads.runs[train].queue: platform stack {PLATFORM} has no local queue research/research; {remedy} "
        "(or ask the platform's owner to declare it)"
        for remedy in expected
    )
