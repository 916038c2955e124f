"""Values that look like mistakes but are correct have no finding."""

from tests.unit.make import make_secret, make_settings
from tests.unit.preflight.cases import ROOT
from tests.unit.preflight.slip_cases import GPU, data_of, discarding, requesting, stopping, unqueued
from trainstack.preflight.file_checks import check
from trainstack.settings.sections.secrets import Secrets


def test_correct_values_have_no_findings() -> None:
    """Ids of runs and claims that are no longer declared, modules and packages, devices at their limit."""
    correct = (
        stopping("train-0123456789"),
        stopping("gone-0123456789"),
        stopping("train-2-0123456789"),
        discarding("research/training"),
        discarding("research/old"),
        discarding("default/old"),
        make_settings(data_of("workloads.digits.prepare")),
        make_settings(data_of("trainstack.cli")),
        make_settings(secrets=Secrets(secrets=(make_secret(),))),
        requesting({"cpu": "1", GPU: "1"}, {"cpu": "2", GPU: "1"}),
        requesting({"cpu": "500m"}, {"memory": "1Gi", "hugepages-2Mi": "2Mi"}),
        unqueued(env={"MINE": "x"}, working_dir="/opt/..digits"),
    )
    for settings in correct:
        assert check(settings, ROOT) == []
