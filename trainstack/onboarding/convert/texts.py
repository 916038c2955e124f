"""The text of a converted object: the user's own where it can be kept, with its comments and order."""

from collections.abc import Mapping
from io import StringIO
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from trainstack.onboarding.convert.documents import InputObject
from trainstack.settings.base import tuples_to_lists
from trainstack.settings.loading.kubernetes_yaml import parse_documents
from trainstack.settings.loading.merge import prune, to_plain

_WIDTH = 4096
_WORDS = frozenset({"", "~", "null", "true", "false", "y", "n", "yes", "no", "on", "off"})
"""Plain scalars, in lower case, that kubectl reads as other values than strings."""
_DUMPER: Any = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {"ignore_aliases": lambda *_: True})


class Flow(dict[str, Any]):
    """A map that is written on one line."""


def object_text(source: InputObject) -> str:
    """Return the text of a file with the object: that of its document, without what the cluster has set."""
    text = source.text.strip("\n")
    if not text or text.lstrip().startswith("{"):
        return dump_object(source.body)
    if source.dropped:
        # What kubectl prints has no comments, so that it can be written anew.
        text = _without_fields(text, source.dropped) if "#" in text else ""
    # A block scalar at the end of a file without a line break has none either, so the text is kept without it.
    candidates = (f"{text.rstrip()}\n", text) if text else ()
    return next((candidate for candidate in candidates if _parse(candidate) == source.body), dump_object(source.body))


def dump_object(body: Mapping[str, Any]) -> str:
    """Return the YAML of an object in the order of its fields, as kubectl reads it."""
    text: str = yaml.dump(
        dict(body), Dumper=_DUMPER, sort_keys=False, default_flow_style=False, allow_unicode=True, width=_WIDTH
    )
    return text


def _parse(text: str) -> object:
    findings: list[Any] = []
    nodes = parse_documents(text, "", findings)
    return tuples_to_lists(to_plain(prune(nodes[0]))) if len(nodes) == 1 and not findings else None


def _without_fields(text: str, paths: tuple[str, ...]) -> str:
    """Return the text without top-level fields and fields of the metadata; empty if other fields are to be removed."""
    editor = YAML()
    editor.width, editor.preserve_quotes = _WIDTH, True
    try:
        tree = editor.load(text)
        for path in paths:
            section, _, key = path.partition(".")
            parent = tree if not key else tree[section]
            if key.startswith("annotations."):
                parent, key = parent["annotations"], key.removeprefix("annotations.")
            del parent[key or section]
    except (YAMLError, KeyError, TypeError):
        return ""
    stream = StringIO()
    editor.dump(tree, stream)
    return stream.getvalue()


def _represent_text(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif text.lower() in _WORDS or text[0] in "0123456789+-.":
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_DUMPER.add_representer(
    Flow, lambda dumper, value: dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=True)
)
_DUMPER.add_representer(str, _represent_text)
