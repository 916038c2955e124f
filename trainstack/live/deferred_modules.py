"""Deferred imports of modules that libraries import for features that Trainstack does not use."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _DeferredModule(ModuleType):
    """A placeholder that imports its module when a name in it is first used.

    `importlib.util.LazyLoader` is no alternative: it imports a module at the second import statement for it.
    """

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def defer(*names: str) -> None:
    """Defer the imports of modules, given by their full names, unless they are imported already."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = module = _DeferredModule(name)
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(import_module(parent), child, module)
