"""Errors of reads from image registries."""

from trainstack.errors import TrainstackError


class RegistryError(TrainstackError):
    """An image cannot be read from its registry. The message gives the image, the reason and the remedy."""


class ImageMissingError(RegistryError):
    """The registry does not have the image."""


class AccessDeniedError(RegistryError):
    """The registry refuses this user."""


class NoAddressError(RegistryError):
    """The host of the registry has no address."""
