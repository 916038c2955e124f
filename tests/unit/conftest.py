"""Generated examples are judged by what they do: how long one takes is the machine's affair."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
