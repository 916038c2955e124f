"""The messages between the engine and its language host, without the rest of the SDK.

Importing the SDK takes longer than everything else in a host that runs no program.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec


@contextmanager
def _without_package_code(*packages: str) -> Iterator[None]:
    """Make the modules of packages importable in this block without executing the packages' own code."""
    added_names = [name for name in packages if name not in sys.modules]
    for name in added_names:
        spec = find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"no package {name}", name=name)
        sys.modules[name] = module_from_spec(spec)
    try:
        yield
    finally:
        for name in added_names:
            del sys.modules[name]


with _without_package_code("pulumi", "pulumi.runtime"):
    from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

__all__ = ["language_pb2", "language_pb2_grpc", "plugin_pb2"]
