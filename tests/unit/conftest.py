"""Generated examples have no deadline, because machines differ, and are the same in every run.

`pytest --hypothesis-profile fresh` draws others.
"""

import gc

from hypothesis import settings

settings.register_profile("untimed", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Keep what collection made from the collector of garbage: it stays to the end, and to walk it takes long."""
    gc.collect()
    gc.freeze()
