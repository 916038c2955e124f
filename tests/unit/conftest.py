"""Generated examples are judged by what they do: how long one takes is the machine's affair."""

import gc

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Keep what collection made from the collector of garbage: it stays to the end, and to walk it takes long."""
    gc.collect()
    gc.freeze()
