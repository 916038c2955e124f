"""JSON Schemas of the settings' files for editors; `trainstack dev schema` writes them to docs/schema/.

Files are merged, and `null` deletes: so the schemas require only the names of elements, and accept null elsewhere.
"""

import ast
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from trainstack.settings.base import Section
from trainstack.settings.loading.load import PROJECT, SECRETS, SECTIONS, STACK_FILE_KEYS
from trainstack.settings.model import Settings
from trainstack.settings.search_space.space import Space
from trainstack.settings.sections.sweeps import FROM_FILES

FOLDER = Path("docs/schema")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FROM = {
    "type": "string",
    "description": "The run is based on `workloads/<from>/workload.yaml`; by default, `from` is the run's name.",
}

Schema = dict[str, Any]


def schemas() -> dict[str, Schema]:
    """Return the JSON Schemas of the four kinds of files, by file name."""
    whole = Settings.model_json_schema(by_alias=True)
    models = dict(_models())
    definitions = {name: _relaxed(definition, models[name]) for name, definition in whole["$defs"].items()}
    sections = {name: whole["properties"][name] for name in SECTIONS}
    for section in sections.values():
        section.pop("default", None)
    # `from` is no field of the model: the loader merges the base before the validation.
    run = {**definitions["Workload"], "properties": {**definitions["Workload"]["properties"], "from": _FROM}}
    base = {**definitions["Workload"], "required": []}
    definitions["Workload"] = run
    definitions["Sweep"] = _sweep(definitions["Sweep"], run)
    config = {PROJECT + name: _or_null(section) for name, section in sections.items()}
    environment = {
        "type": "object",
        "required": ["config"],
        "additionalProperties": False,
        "properties": {
            **{key: {"description": "The Pulumi engine's."} for key in STACK_FILE_KEYS},
            "config": {
                "type": "object",
                "properties": config,
                "patternProperties": {f"^(?!{PROJECT})[^:]+:": {"description": "Another project's or provider's."}},
                "additionalProperties": False,
            },
        },
    }
    shared = {name: section for name, section in sections.items() if name != SECRETS}
    defaults = {"type": "object", "properties": shared, "additionalProperties": False}
    # A space is not merged with another file, so its keys are required.
    space = Space.model_json_schema(by_alias=True)
    space = {**_relaxed(space, Space), "required": space["required"]}
    return {
        "environment.schema.json": _document("Pulumi.<environment>.yaml", environment, definitions),
        "defaults.schema.json": _document("defaults.yaml", defaults, definitions),
        "workload.schema.json": _document("workloads/<name>/workload.yaml", base, definitions),
        "space.schema.json": _document("sweeps/<name>/space.yaml", space, definitions),
    }


def _sweep(sweep: Schema, run: Schema) -> Schema:
    """Return the schema of a sweep in an environment's file.

    It has no keys that the files of the sweep's folder set, and its run has no name.
    """
    kept = {key: value for key, value in sweep["properties"].items() if key not in FROM_FILES}
    unnamed = {key: value for key, value in run["properties"].items() if key != "name"}
    described = {key: kept["run"][key] for key in ("description",) if key in kept["run"]}
    kept["run"] = {**described, "type": "object", "additionalProperties": False, "properties": unnamed}
    return {**sweep, "properties": kept}


@cache
def texts() -> Mapping[str, str]:
    """Return the JSON texts of the schemas by file name."""
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas().items()}


def files(folder: Path = FOLDER) -> dict[str, str]:
    """Return the texts of the schemas by path, as files of a folder of the project."""
    return {str(folder / name): text for name, text in texts().items()}


def _document(title: str, body: Schema, definitions: Mapping[str, Schema]) -> Schema:
    used: dict[str, Schema] = {}
    _collect(body, definitions, used)
    return {"$schema": _DIALECT, **body, "title": title, "$defs": dict(sorted(used.items()))}


def _collect(part: object, definitions: Mapping[str, Schema], used: dict[str, Schema]) -> None:
    if isinstance(part, dict):
        name = str(part.get("$ref", "")).removeprefix("#/$defs/")
        if name and name not in used:
            used[name] = definitions[name]
            _collect(used[name], definitions, used)
    for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _collect(child, definitions, used)


def _relaxed(definition: Schema, model: type[Section]) -> Schema:
    docs = _field_docs(model)
    fields = {field.alias or name: name for name, field in model.model_fields.items()}
    properties = {}
    for key, schema in definition["properties"].items():
        described = {**schema, "description": docs[fields[key]]} if fields[key] in docs else schema
        properties[key] = described if key == "name" else _or_null(described)
    required = [key for key in definition.get("required", ()) if key == "name"]
    return {**definition, "properties": properties, "required": required}


def _or_null(part: Schema) -> Schema:
    outer: Schema = {key: part[key] for key in ("default", "description") if key in part}
    inner: Schema = {key: value for key, value in part.items() if key not in outer and key != "title"}
    choices = inner.get("anyOf") or [inner]
    null = {"type": "null"}
    return {**outer, "anyOf": choices if null in choices else [*choices, null]}


def _models(base: type[Section] = Section) -> Iterator[tuple[str, type[Section]]]:
    for model in base.__subclasses__():
        yield model.__name__, model
        yield from _models(model)


@cache
def _field_docs(model: type[Section]) -> dict[str, str]:
    """Return the strings below a model's fields, by field.

    Pydantic's `use_attribute_docstrings` would parse the sources at every import.
    """
    docs: dict[str, str] = {}
    for base in reversed([base for base in model.__mro__ if issubclass(base, Section)]):
        for pair in pairwise(_classes(base.__module__)[base.__name__].body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[field] = inspect.cleandoc(text)
    return docs


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the definitions of a module's classes, by name.

    `inspect.getsource` of a class would parse the module again for each class.
    """
    source = inspect.getsource(sys.modules[module])
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
