"""The form of URLs in messages."""


def redact_url(url: str) -> str:
    """Return a URL without user, password and query, which are secret in URLs of backends and in signed URLs."""
    scheme, separator, location = url.partition("?")[0].partition("://")
    authority, slash, path = location.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"
