"""Verdicts are withheld for releases of Kueue that the simulator does not model."""

import pytest

from tests.unit.make import make_kueue, make_manifest, make_run, make_settings
from trainstack.declared.declared import Declared
from trainstack.forecast.forecast import forecast
from trainstack.kueue.admission_simulator import declared_verdicts
from trainstack.kueue.releases import is_modelled
from trainstack.settings.sections.operators import Operators


@pytest.mark.parametrize(
    ("release", "modelled"),
    [("v0.15.0", True), ("v0.15.2", True), ("0.15.9", True), ("", True), ("v0.14.4", False), ("v0.150.0", False)],
)
def test_a_release_is_modelled_by_its_minor(release: str, modelled: bool) -> None:
    assert is_modelled(release) is modelled


def test_a_declared_release_that_is_not_modelled_makes_every_verdict_unknown() -> None:
    kueue = make_kueue().model_copy(update={"manifest": make_manifest(version="v0.17.0")})
    settings = make_settings(make_run(), operators=Operators(kueue=kueue))
    assert "the plan models Kueue v0.15, but Kueue v0.17.0 admits the runs" in forecast(settings).notes
    (verdict,) = declared_verdicts(Declared(settings))
    assert (verdict.name, verdict.outcome) == ("train", "unknown")
    assert [reason.message for reason in verdict.reasons] == [
        "the verdict models Kueue v0.15, but Kueue v0.17.0 admits the run"
    ]
