"""What the files of a checkout declare, as manifests: without the engine, a cluster or the network."""

from pathlib import Path

import yaml

from trainstack.declared.declared import Declared
from trainstack.objects.labels import Manifest
from trainstack.settings.loading.load import load
from trainstack.settings.sections.operators import Operators


def declared(root: Path, stack: str, *, commit: str, releases: bool, cached: bool = False) -> list[Manifest]:
    """Every object of an environment.

    Args:
        root: the checkout whose files are read. None of its code is run.
        stack: the environment.
        commit: what runs are recorded with.
        releases: whether the operators' releases are read and their objects are part of the result.
        cached: whether parsed releases are kept below `root`.

    Raises SettingsError, or ValueError with what cannot be built and what would help.

    """
    settings = load(root, stack)
    if not releases:
        settings = settings.model_copy(update={"operators": Operators()})
    return Declared.from_files(settings, root, commit=commit, cached=cached).manifests()


def as_yaml(manifests: list[Manifest]) -> str:
    """The objects as one YAML stream, in their order."""
    # An object that stands in two places is written out in both: anchors are for programs.
    dumper = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda _self, _data: True})
    return yaml.dump_all(manifests, Dumper=dumper, sort_keys=False, explicit_start=True, width=120)
