"""Whether the error of a failed creation is a refusal by the API server."""

import re

_PREFIX = "by the Kubernetes API server: "
"""The provider's text before the API server's message (provider.go of pulumi-kubernetes, `Create`)."""
_REFUSALS = (
    # Status 403 and 422, also by a quota or a policy. After a colon or a parenthesis, these words are part of another
    # error's message.
    r"[^:(\n]*\bis (forbidden|invalid): ",
    r'admission webhook "[^"]*" denied the request',
    # 409: the provider's words about any conflict, and the API server's about a creation without server-side apply.
    r"Server-Side Apply field conflict detected\.",
    r'[^:\n]* "[^"]*" already exists$',
    # 404: a namespace or a kind.
    r'namespaces "[^"]*" not found$',
    r"no matches for kind ",
    # 400: fields that the kind does not have.
    r"failed to create typed patch object ",
    r"[^:\n]* cannot be handled as a ",
    # The client's words about responses without a message.
    r"the server rejected our request ",
    r"the server could not find the requested resource",
    r"the server has asked for the client to provide credentials",
    r"the server responded with the status code 4(?!08|29)\d\d ",
    r"Unauthorized$",
)
"""The beginnings of messages of requests that were answered with a 4xx other than 408 and 429 (errors.go of
apimachinery, StatusError). The provider does not pass the status itself on."""


def is_refusal(error: str) -> bool:
    """Whether the API server refused to create the object, so that it does not appear later.

    After a lost connection, a timeout, a 5xx and any unknown text the request may still take effect.
    """
    _, prefix, message = error.partition(_PREFIX)
    return prefix != "" and any(re.match(pattern, message) for pattern in _REFUSALS)
