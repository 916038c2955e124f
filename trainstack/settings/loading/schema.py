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
from trainstack.settings.loading.load import CONFIG_PREFIX, SECRETS, SECTIONS, STACK_FILE_KEYS
from trainstack.settings.model import Settings
from trainstack.settings.search_space.space import Space
from trainstack.settings.sections.sweeps import FROM_FILES

FOLDER = Path("docs/schema")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FROM_SCHEMA = {
    "type": "string",
    "description": "The run is based on `workloads/<from>/workload.yaml`; by default, `from` is the run's name.",
}

Schema = dict[str, Any]


def build_schemas() -> dict[str, Schema]:
    """Return the JSON Schemas of the four kinds of files, by file name."""
    settings_schema = Settings.model_json_schema(by_alias=True)
    models = dict(_section_models())
    definitions = {name: _relax(definition, models[name]) for name, definition in settings_schema["$defs"].items()}
    sections = {name: settings_schema["properties"][name] for name in SECTIONS}
    for section in sections.values():
        section.pop("default", None)
    # `from` is no field of the model: the loader merges the base before the validation.
    run = {**definitions["Workload"], "properties": {**definitions["Workload"]["properties"], "from": _FROM_SCHEMA}}
    base_workload = {**definitions["Workload"], "required": []}
    definitions["Workload"] = run
    definitions["Sweep"] = _sweep_schema(definitions["Sweep"], run)
    config = {CONFIG_PREFIX + name: _allow_null(section) for name, section in sections.items()}
    environment = {
        "type": "object",
        "required": ["config"],
        "additionalProperties": False,
        "properties": {
            **{key: {"description": "The Pulumi engine's."} for key in STACK_FILE_KEYS},
            "config": {
                "type": "object",
                "properties": config,
                "patternProperties": {
                    f"^(?!{CONFIG_PREFIX})[^:]+:": {"description": "Another project's or provider's."}
                },
                "additionalProperties": False,
            },
        },
    }
    shared = {name: section for name, section in sections.items() if name != SECRETS}
    defaults = {"type": "object", "properties": shared, "additionalProperties": False}
    # A space is not merged with another file, so its keys are required.
    space = Space.model_json_schema(by_alias=True)
    space = {**_relax(space, Space), "required": space["required"]}
    return {
        "environment.schema.json": _document_schema("Pulumi.<environment>.yaml", environment, definitions),
        "defaults.schema.json": _document_schema("defaults.yaml", defaults, definitions),
        "workload.schema.json": _document_schema("workloads/<name>/workload.yaml", base_workload, definitions),
        "space.schema.json": _document_schema("sweeps/<name>/space.yaml", space, definitions),
    }


def _sweep_schema(sweep: Schema, run: Schema) -> Schema:
    """Return the schema of a sweep in an environment's file.

    It has no keys that the files of the sweep's folder set, and its run has no name.
    """
    properties = {key: value for key, value in sweep["properties"].items() if key not in FROM_FILES}
    unnamed = {key: value for key, value in run["properties"].items() if key != "name"}
    description = {key: properties["run"][key] for key in ("description",) if key in properties["run"]}
    properties["run"] = {**description, "type": "object", "additionalProperties": False, "properties": unnamed}
    return {**sweep, "properties": properties}


@cache
def schema_texts() -> Mapping[str, str]:
    """Return the JSON texts of the schemas by file name."""
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in build_schemas().items()}


def schema_files(folder: Path = FOLDER) -> dict[str, str]:
    """Return the texts of the schemas by path, as files of a folder of the project."""
    return {str(folder / name): text for name, text in schema_texts().items()}


def _document_schema(title: str, body: Schema, definitions: Mapping[str, Schema]) -> Schema:
    used_definitions: dict[str, Schema] = {}
    _collect_definitions(body, definitions, used_definitions)
    return {"$schema": _DIALECT, **body, "title": title, "$defs": dict(sorted(used_definitions.items()))}


def _collect_definitions(part: object, definitions: Mapping[str, Schema], used_definitions: dict[str, Schema]) -> None:
    if isinstance(part, dict):
        name = str(part.get("$ref", "")).removeprefix("#/$defs/")
        if name and name not in used_definitions:
            used_definitions[name] = definitions[name]
            _collect_definitions(used_definitions[name], definitions, used_definitions)
    for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _collect_definitions(child, definitions, used_definitions)


def _relax(definition: Schema, model: type[Section]) -> Schema:
    docs = _field_docs(model)
    fields = {field.alias or name: name for name, field in model.model_fields.items()}
    properties = {}
    for key, schema in definition["properties"].items():
        described = {**schema, "description": docs[fields[key]]} if fields[key] in docs else schema
        properties[key] = described if key == "name" else _allow_null(described)
    required = [key for key in definition.get("required", ()) if key == "name"]
    return {**definition, "properties": properties, "required": required}


def _allow_null(part: Schema) -> Schema:
    outer: Schema = {key: part[key] for key in ("default", "description") if key in part}
    inner: Schema = {key: value for key, value in part.items() if key not in outer and key != "title"}
    choices = inner.get("anyOf") or [inner]
    null = {"type": "null"}
    return {**outer, "anyOf": choices if null in choices else [*choices, null]}


def _section_models(base: type[Section] = Section) -> Iterator[tuple[str, type[Section]]]:
    for model in base.__subclasses__():
        yield model.__name__, model
        yield from _section_models(model)


@cache
def _field_docs(model: type[Section]) -> dict[str, str]:
    """Return the strings below a model's fields, by field.

    Pydantic's `use_attribute_docstrings` would parse the sources at every import.
    """
    docs: dict[str, str] = {}
    for ancestor in reversed([ancestor for ancestor in model.__mro__ if issubclass(ancestor, Section)]):
        for pair in pairwise(_class_definitions(ancestor.__module__)[ancestor.__name__].body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[field] = inspect.cleandoc(text)
    return docs


@cache
def _class_definitions(module: str) -> dict[str, ast.ClassDef]:
    """Return the definitions of a module's classes, by name.

    `inspect.getsource` of a class would parse the module again for each class.
    """
    source = inspect.getsource(sys.modules[module])
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
