"""The manifests that the files of a checkout declare, without the engine, a cluster or the network."""

from pathlib import Path

import yaml

from trainstack.objects.labels import Manifest
from trainstack.settings.loading.load import load
from trainstack.settings.sections.operators import Operators
from trainstack.stack_objects.stack_objects import StackObjects


def checkout_manifests(
    root: Path, stack: str, *, commit: str, with_releases: bool, use_cache: bool = False
) -> list[Manifest]:
    """Return all objects of an environment of the checkout `root`, without executing its code.

    Raises SettingsError, or ValueError if an object cannot be built.

    Args:
        commit: recorded for runs.
        with_releases: whether to include the objects of the operators' releases.
        use_cache: whether to keep the releases in parsed form below `root`.

    """
    settings = load(root, stack)
    if not with_releases:
        settings = settings.model_copy(update={"operators": Operators()})
    return StackObjects.from_files(settings, root, commit=commit, use_cache=use_cache).manifests()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: object) -> bool:
        """Return True: an object that occurs twice is written twice, because anchors are hard to read."""
        return True


def as_yaml(manifests: list[Manifest]) -> str:
    """Return the objects as one YAML stream, in the given order."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=120)
