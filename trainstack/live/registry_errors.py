"""Errors of reads from image registries."""

from trainstack.errors import TrainstackError


class RegistryError(TrainstackError):
    """An image cannot be read from its registry. The message gives the image, the reason and the remedy."""


class ImageMissingError(RegistryError):
    """The registry does not have the image."""


class AccessDeniedError(RegistryError):
    """The registry denies access to the user."""


class CredentialsError(RegistryError):
    """A credential file cannot be read, or a credential helper fails. The message gives file, registry and remedy."""


class NoAddressError(RegistryError):
    """The registry's host has no address in DNS."""
