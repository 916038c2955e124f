"""The JSON Schemas that editors use."""

from pathlib import Path

from trainstack.settings.loading.load import SECTIONS
from trainstack.settings.loading.schema import FOLDER, build_schemas, schema_texts
from trainstack.settings.model import Settings

ROOT = Path(__file__).resolve().parents[4]


def test_written_schemas_are_current() -> None:
    """If this fails, run `trainstack dev schema`."""
    written = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / FOLDER).iterdir()}
    assert written == schema_texts()


def test_the_loader_knows_every_section() -> None:
    """The sections of a file are the fields of the model, except the name and the pins, which have their own file."""
    assert set(SECTIONS) == set(Settings.model_fields) - {"stack", "pins", "code_pins"}


def test_values_that_another_file_may_have_are_not_required() -> None:
    """Only the name of a named element is required, only runs have `from`, and null is accepted."""
    run = build_schemas()["environment.schema.json"]["$defs"]["Workload"]
    base = build_schemas()["workload.schema.json"]
    assert (run["required"], base["required"]) == (["name"], [])
    assert set(run["properties"]) - set(base["properties"]) == {"from"}
    assert run["properties"]["seed"] == {
        "default": None,
        "description": "Part of the run's identity; passed to the program as TRAINSTACK_SEED.",
        "anyOf": [{"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, {"type": "null"}],
    }
