"""Reads of a cluster or a registry, the only ones."""

import sys

from trainstack.live.deferred_modules import defer

# httpx imports its own command line, with rich and Pygments, wherever these are installed: a tenth of all imports of
# the Pulumi program. With None the import fails, which httpx expects.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
# kr8s imports them for web sockets, JSONPath and `whoami`: half of its imports' time.
defer("httpx_ws", "jsonpath", "cryptography.x509")
