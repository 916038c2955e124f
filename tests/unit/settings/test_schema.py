"""The JSON Schemas that editors use."""

from pathlib import Path

from trainstack.settings.loading.load import SECTIONS
from trainstack.settings.loading.schema import FOLDER, schemas, texts
from trainstack.settings.model import Settings

ROOT = Path(__file__).resolve().parents[3]


def test_written_schemas_are_current() -> None:
    """docs/schema holds what the models say now; else run `trainstack dev schema`."""
    written = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / FOLDER).iterdir()}
    assert written == texts()


def test_the_loader_knows_every_section() -> None:
    """The sections of a file are the fields of the model, but for its name and the pins, a file of their own."""
    assert set(SECTIONS) == set(Settings.model_fields) - {"stack", "pins", "code_pins"}


def test_what_may_stand_in_another_file_is_not_asked_for() -> None:
    """Only the name of a named thing is required, `from` is a run's alone, and null is taken."""
    run = schemas()["environment.schema.json"]["$defs"]["Workload"]
    base = schemas()["workload.schema.json"]
    assert (run["required"], base["required"]) == (["name"], [])
    assert set(run["properties"]) - set(base["properties"]) == {"from"}
    assert run["properties"]["seed"] == {
        "default": None,
        "description": "Part of the run's identity; passed to the program as TRAINSTACK_SEED.",
        "anyOf": [{"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, {"type": "null"}],
    }
