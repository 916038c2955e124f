"""Reads of clusters, registries and code repositories; no other package reads them.

Read client.py before you edit.
"""

import sys

from trainstack.live.deferred_modules import defer

# httpx imports its own command line, with rich and Pygments, if they are installed. That takes a tenth of the Pulumi
# program's import time. None makes the import fail, which httpx expects.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
# kr8s imports these modules for web sockets, JSONPath and `whoami`, which Trainstack does not use. They take half of
# its import time.
defer("httpx_ws", "jsonpath", "cryptography.x509")
