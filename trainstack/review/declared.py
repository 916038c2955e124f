"""The manifests that a checkout's files declare, without the engine, a cluster or the network."""

from pathlib import Path

import yaml

from trainstack.declared.declared import Declared
from trainstack.objects.labels import Manifest
from trainstack.settings.loading.load import load
from trainstack.settings.sections.operators import Operators


def declared(root: Path, stack: str, *, commit: str, releases: bool, cached: bool = False) -> list[Manifest]:
    """Return every object of an environment of the checkout `root`, none of whose code is executed.

    `commit` is recorded for runs; `releases` includes the objects of the operators' releases, and `cached` keeps these
    in parsed form below `root`. Raises SettingsError, or ValueError if an object cannot be built.
    """
    settings = load(root, stack)
    if not releases:
        settings = settings.model_copy(update={"operators": Operators()})
    return Declared.from_files(settings, root, commit=commit, cached=cached).manifests()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: object) -> bool:
        """Write an object that occurs twice in full each time: anchors are for programs."""
        return True


def as_yaml(manifests: list[Manifest]) -> str:
    """Return the objects as one YAML stream, in their order."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=120)
