"""The credentials of requests, which are cached until they expire, and renewed once for all clients of a process."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial

from trainstack.live.access import Access, Plugin
from trainstack.live.credential_plugin import Credential, is_header_value, run_plugin
from trainstack.live.errors import PermanentError

_MARGIN_SECONDS = 10
"""The time before its expiry at which a credential is renewed."""
_LEAST_SECONDS = 10
"""The minimum time in the cache. A credential that is expired by this machine's clock may still be accepted."""
_REFUSED_SECONDS = 60
"""The pause after the server refused a new credential too, in which further refusals cause no renewal."""
_keeping = threading.Lock()
_kept: dict[str, "_KeptCredential"] = {}
"""The cached credentials, by plugin and its input."""


class Credentials:
    """The credentials of a kubeconfig's user. Methods raise PermanentError."""

    def __init__(self, access: Access) -> None:
        user = access.user
        if user.username or user.password:
            raise access.unusable("Kubernetes has not accepted username and password since v1.19")
        if user.auth_provider is not None and user.auth_provider.name != "oidc":
            provider = f"auth-provider {user.auth_provider.name}"
            raise access.unusable(f"{provider} was removed from Kubernetes' clients; its successor is an exec plugin")
        self._access = access
        self._run_plugin = None if user.plugin is None else partial(run_plugin, access, user.plugin)
        self._kept = _KeptCredential() if user.plugin is None else _kept_of(access, user.plugin)
        self._pair = ("", "") if user.plugin else self._read_pair()

    async def current(self) -> Credential:
        """Return the credential for a request. Run the plugin if the cached one has expired."""
        if self._run_plugin is None:
            return Credential(self._read_token(), *self._pair)
        unexpired = self._kept.unexpired()
        return unexpired if unexpired is not None else await asyncio.to_thread(self._kept.renew, self._run_plugin)

    async def replacement(self, refused: Credential) -> Credential:
        """Return a new credential after the server refused one; the refused one if there is no other."""
        if self._run_plugin is None:
            # Another program may have renewed the files.
            self._pair = self._read_pair()
            return await self.current()
        return await asyncio.to_thread(self._kept.renew, self._run_plugin, refused)

    def refuse_replacement(self) -> None:
        """Record that the server refused the replacement too, to pause renewals."""
        self._kept.refuse_replacement()

    def _read_token(self) -> str:
        access, user = self._access, self._access.user
        name, token = "its token", user.token
        if user.token_file:
            # As in kubectl, a file has precedence over a token.
            name, token = f"the token in {user.token_file}", access.text("tokenFile", user.token_file).strip()
            if not token:
                raise access.unusable(f"tokenFile {user.token_file} is empty")
        elif user.auth_provider is not None:
            name, token = "its id-token", user.auth_provider.config.get("id-token", "")
            if not token:
                raise access.unusable("auth-provider oidc has no id-token; log in again")
        if token and not is_header_value(token):
            raise access.unusable(f"{name} has a line break, a space or another character that no request can carry")
        return token

    def _read_pair(self) -> tuple[str, str]:
        access, user = self._access, self._access.user
        certificate = access.pem("client-certificate", user.certificate, user.certificate_data)
        key = access.pem("client-key", user.key, user.key_data)
        if bool(certificate) != bool(key):
            raise access.unusable("the user has a client certificate or its key, and not both")
        if "ENCRYPTED" in key:
            raise access.unusable("client-key is encrypted; write it without a passphrase")
        return certificate, key


class _KeptCredential:
    """The last credential of a plugin, shared by all threads."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._last: tuple[Credential, float] | None = None
        """The credential, and the time, in seconds since 1970, from which it is renewed."""
        self._failure: tuple[float, PermanentError] | None = None
        """The monotonic time at which the last run failed, and its error."""
        self._pointless_until = 0.0

    def unexpired(self) -> Credential | None:
        """Return the credential, or None if it has to be renewed."""
        return self._last[0] if self._last is not None and time.time() < self._last[1] else None

    def renew(self, run: Callable[[], Credential], refused: Credential | None = None) -> Credential:
        """Return an unexpired credential, by default the cached one; after a refusal, a new one if the plugin has one.

        Raises PermanentError if the plugin fails.
        """
        asked_at = time.monotonic()
        # Other threads wait for this run of the plugin, and share its credential or its error.
        with self._running:
            unexpired = self.unexpired()
            if unexpired is not None and unexpired != refused:
                return unexpired
            if self._failure is not None and self._failure[0] > asked_at:
                raise self._failure[1]
            if refused is not None and asked_at < self._pointless_until:
                return refused
            try:
                credential = run()
            except PermanentError as error:
                self._failure = time.monotonic(), error
                raise
            expiry = float("inf") if credential.expires is None else credential.expires.timestamp()
            self._last = credential, max(expiry - _MARGIN_SECONDS, time.time() + _LEAST_SECONDS)
            if credential == refused:
                self.refuse_replacement()
            return credential

    def refuse_replacement(self) -> None:
        """Pause renewals after refusals, since the plugin has no better credential."""
        self._pointless_until = time.monotonic() + _REFUSED_SECONDS


def _kept_of(access: Access, plugin: Plugin) -> _KeptCredential:
    key = f"{plugin.model_dump_json()} {access.cluster_entry if plugin.provides_cluster_info else ''}"
    with _keeping:
        return _kept.setdefault(key, _KeptCredential())
