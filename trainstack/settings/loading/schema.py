"""JSON Schemas of the four kinds of file, for editors: `trainstack dev schema` writes them to docs/schema/.

What a file leaves out may stand in another that it is merged with, and `null` deletes: so the schemas ask for nothing
but the `name` of a named thing, and take null wherever the models have a value.
"""

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from trainstack.settings.loading.load import PROJECT, SECRETS, SECTIONS, STACK_FILE_KEYS
from trainstack.settings.model import Settings
from trainstack.settings.search_space.space import Space
from trainstack.settings.sections.sweeps import FROM_FILES

FOLDER = Path("docs/schema")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MODULES = (
    "base",
    "sections.silences",
    "sections.elastic",
    "sections.environment",
    "search_space.hyperparams",
    "sections.jobsets",
    "model",
    "sections.operators",
    "sections.forecast",
    "sections.queues",
    "sections.secrets",
    "search_space.space",
    "sections.storage",
    "sections.sweeps",
    "sections.tenants",
    "sections.workloads",
)
_FROM = {
    "type": "string",
    "description": "The folder `workloads/<from>/` whose workload.yaml the run is based on; by default the run's name.",
}

Schema = dict[str, Any]


def schemas() -> dict[str, Schema]:
    """The schemas by file name."""
    whole = Settings.model_json_schema(by_alias=True)
    models = dict(_models())
    definitions = {name: _relaxed(each, models[name]) for name, each in whole["$defs"].items()}
    sections = {name: whole["properties"][name] for name in SECTIONS}
    for each in sections.values():
        each.pop("default", None)
    run = {**definitions["Workload"], "properties": {**definitions["Workload"]["properties"], "from": _FROM}}
    base = {**definitions["Workload"], "required": []}
    definitions["Workload"] = run
    definitions["Sweep"] = _sweep(definitions["Sweep"], run)
    config = {PROJECT + name: _or_null(each) for name, each in sections.items()}
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
    shared = {name: each for name, each in sections.items() if name != SECRETS}
    defaults = {"type": "object", "properties": shared, "additionalProperties": False}
    return {
        "environment.schema.json": _document("Pulumi.<environment>.yaml", environment, definitions),
        "defaults.schema.json": _document("defaults.yaml", defaults, definitions),
        "workload.schema.json": _document("workloads/<name>/workload.yaml", base, definitions),
        "space.schema.json": _document("sweeps/<name>/space.yaml", _space(), definitions),
    }


def _sweep(sweep: Schema, run: Schema) -> Schema:
    """A sweep as an environment writes it: without what its folder's files give, and its run without a name."""
    kept = {key: each for key, each in sweep["properties"].items() if key not in FROM_FILES}
    unnamed = {key: each for key, each in run["properties"].items() if key != "name"}
    described = {key: kept["run"][key] for key in ("description",) if key in kept["run"]}
    kept["run"] = {**described, "type": "object", "additionalProperties": False, "properties": unnamed}
    return {**sweep, "properties": kept}


def _space() -> Schema:
    """A space, which is merged with no other file: so the schema asks for what the model does."""
    whole = Space.model_json_schema(by_alias=True)
    return {**_relaxed(whole, Space), "required": whole["required"]}


def texts() -> dict[str, str]:
    """The files' contents, by name."""
    return {name: json.dumps(each, indent=2, ensure_ascii=False) + "\n" for name, each in schemas().items()}


def write(root: Path) -> list[Path]:
    """Write the schemas below the project at `root`; return their paths in it."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    contents = texts()
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [FOLDER / name for name in contents]


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
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _collect(each, definitions, used)


def _relaxed(definition: Schema, model: type[BaseModel]) -> Schema:
    words = _field_docs(model)
    fields = {field.alias or name: name for name, field in model.model_fields.items()}
    properties = {}
    for key, each in definition["properties"].items():
        described = {**each, "description": words[fields[key]]} if fields[key] in words else each
        properties[key] = described if key == "name" else _or_null(described)
    required = [key for key in definition.get("required", ()) if key == "name"]
    return {**definition, "properties": properties, "required": required}


def _or_null(part: Schema) -> Schema:
    outer: Schema = {key: part[key] for key in ("default", "description") if key in part}
    inner: Schema = {key: value for key, value in part.items() if key not in outer and key != "title"}
    choices = inner.get("anyOf") or [inner]
    null = {"type": "null"}
    return {**outer, "anyOf": choices if null in choices else [*choices, null]}


def _models() -> Iterator[tuple[str, type[BaseModel]]]:
    for name in _MODULES:
        for key, each in vars(import_module(f"trainstack.settings.{name}")).items():
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield key, each


def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    docs: dict[str, str] = {}
    for each in reversed(model.__mro__):
        module = inspect.getmodule(each)
        if module is not None and module.__name__.startswith("trainstack.settings."):
            docs |= _module_docs(module).get(each.__name__, {})
    return docs


@cache
def _module_docs(module: ModuleType) -> dict[str, dict[str, str]]:
    """The strings below fields, by class and field. Read here, since pydantic would do so at every import."""
    classes = (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef))
    return {each.name: dict(_strings(each)) for each in classes}


def _strings(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, inspect.cleandoc(below.value.value)
