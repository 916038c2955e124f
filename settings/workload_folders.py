"""Names that no workload's folder can have, since `workloads/` also holds modules of the library.

Python imports the package `workloads/images/` in place of the module `workloads/images.py`.
"""

from collections.abc import Iterable
from pathlib import Path

from settings.errors import Finding, Place

_FOLDER = "workloads"
_WRAPPER = "wrapper"
"""The library's only folder there."""


def reserved_names(root: Path) -> dict[str, str]:
    """The names in lower case, each with the reason. File systems that ignore case hold one folder for two names."""
    return _reserved(_listed(root))


def clashes(root: Path) -> list[Finding]:
    """The folders of a project that have such a name. One without `__init__.py` is refused too: it may get one."""
    listed = _listed(root)
    reserved = _reserved(listed)
    return [
        Finding(
            Place(f"{_FOLDER}/{name}"),
            "",
            reserved[name.lower()],
            "rename the folder, and change the settings that name it (`from`, `image.build`, `data`)",
        )
        for name in listed
        if name.lower() in reserved and (name != _WRAPPER or (root / _FOLDER / name / "workload.yaml").is_file())
    ]


def _listed(root: Path) -> list[str]:
    try:
        return [path.name for path in (root / _FOLDER).iterdir()]
    except OSError:
        return []


def _reserved(listed: Iterable[str]) -> dict[str, str]:
    modules = {name.removesuffix(".py").lower(): name for name in listed if name.endswith(".py")}
    return {
        _WRAPPER: f"{_FOLDER}/{_WRAPPER}/ is the library's own folder",
        **{key: f"the library has a module of this name, {_FOLDER}/{name}" for key, name in modules.items()},
    }
