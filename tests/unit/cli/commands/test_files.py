"""The volume that a command's `VOLUME:PATH` names."""

from pathlib import Path

import pytest
import typer

from tests.unit.make import make_settings
from trainstack.cli.commands.files import _place
from trainstack.cli.session import Session
from trainstack.settings.sections.environment import Environment, Existing, ExistingVolume, Namespace

EXISTING = Environment(
    namespaces=(Namespace(name="research"),), existing=Existing(volumes=(ExistingVolume(name="data", namespace="lab"),))
)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """Return a session of an environment with the claim `training`, and the claim `data` of another owner."""
    monkeypatch.setattr(Session, "settings", make_settings(environment=EXISTING))
    return Session(Path("/nowhere"), "dev")


@pytest.mark.parametrize(
    ("place", "namespace", "folder"), [("training:runs", "research", "runs"), ("data:sets/a", "lab", "sets/a")]
)
def test_a_volume_may_be_of_another_owner(session: Session, place: str, namespace: str, folder: str) -> None:
    volume, path = _place(session, place)
    assert (volume.namespace, path) == (namespace, folder)


def test_the_error_lists_all_volumes(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        _place(session, "date:sets")
    assert "its volumes are: training, data" in " ".join(capsys.readouterr().err.split())
