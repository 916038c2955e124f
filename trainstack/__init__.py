"""Training infrastructure as code: Pulumi components for Kueue's queues, storage, operators and training runs.

>>> import trainstack
>>> trainstack.__all__[:4]
['Namespaces', 'Operators', 'Queues', 'StorageClasses']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainstack.components.namespaces import Namespaces
    from trainstack.components.operators import Operators
    from trainstack.components.queues import Queues
    from trainstack.components.runs import TrainingRun
    from trainstack.components.storage import StorageClasses, Volumes
    from trainstack.components.sweeps import Sweep
    from trainstack.components.tenants import Tenants

__all__ = ["Namespaces", "Operators", "Queues", "StorageClasses", "Sweep", "Tenants", "TrainingRun", "Volumes"]

_MODULES = {
    "Namespaces": "namespaces",
    "Operators": "operators",
    "Queues": "queues",
    "StorageClasses": "storage",
    "Sweep": "sweeps",
    "Tenants": "tenants",
    "TrainingRun": "runs",
    "Volumes": "storage",
}


def __getattr__(name: str) -> Any:
    """Import a component when it is first used: most commands work without Pulumi."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.components.{_MODULES[name]}"), name)
