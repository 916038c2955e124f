"""The credentials of requests, which are cached until they expire, and renewed once for all clients of a process."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial

from trainstack.live.access import Access, Plugin
from trainstack.live.credential_plugin import UserCredential, is_header_value, run_plugin
from trainstack.live.errors import PermanentError

_RENEWAL_MARGIN_SECONDS = 10
"""The time before its expiry at which a credential is renewed."""
_MIN_CACHE_SECONDS = 10
"""The minimum time in the cache. A credential that is expired by this machine's clock may still be accepted."""
_REFUSAL_PAUSE_SECONDS = 60
"""The pause after the server refused a new credential too, in which further refusals cause no renewal."""
_cache_lock = threading.Lock()
_cached_by_plugin: dict[str, "_CachedCredential"] = {}
"""The cached credentials, by plugin and its input."""


class UserCredentials:
    """The credentials of a kubeconfig's user. Methods raise PermanentError."""

    def __init__(self, access: Access) -> None:
        user = access.user
        if user.username or user.password:
            raise access.unusable_error("Kubernetes has not accepted username and password since v1.19")
        if user.auth_provider is not None and user.auth_provider.name != "oidc":
            provider = f"auth-provider {user.auth_provider.name}"
            raise access.unusable_error(
                f"{provider} was removed from Kubernetes' clients; its successor is an exec plugin"
            )
        self._access = access
        self._run_plugin = None if user.plugin is None else partial(run_plugin, access, user.plugin)
        self._cached = _CachedCredential() if user.plugin is None else _cached_credential_of(access, user.plugin)
        self._client_certificate = ("", "") if user.plugin else self._read_client_certificate()

    async def current(self) -> UserCredential:
        """Return the credential for a request. Run the plugin if the cached one has expired."""
        if self._run_plugin is None:
            return UserCredential(self._read_token(), *self._client_certificate)
        unexpired = self._cached.read_unexpired()
        return unexpired if unexpired is not None else await asyncio.to_thread(self._cached.renew, self._run_plugin)

    async def replacement(self, refused: UserCredential) -> UserCredential:
        """Return a new credential after the server refused one; the refused one if there is no other."""
        if self._run_plugin is None:
            # Another program may have renewed the files.
            self._client_certificate = self._read_client_certificate()
            return await self.current()
        return await asyncio.to_thread(self._cached.renew, self._run_plugin, refused)

    def record_refused_replacement(self) -> None:
        """Record that the server refused the replacement too, to pause renewals."""
        self._cached.record_refused_replacement()

    def _read_token(self) -> str:
        access, user = self._access, self._access.user
        name, token = "its token", user.token
        if user.token_file:
            # As in kubectl, a file has precedence over a token.
            name, token = f"the token in {user.token_file}", access.read_text_file("tokenFile", user.token_file).strip()
            if not token:
                raise access.unusable_error(f"tokenFile {user.token_file} is empty")
        elif user.auth_provider is not None:
            name, token = "its id-token", user.auth_provider.config.get("id-token", "")
            if not token:
                raise access.unusable_error("auth-provider oidc has no id-token; log in again")
        if token and not is_header_value(token):
            raise access.unusable_error(
                f"{name} has a line break, a space or another character that no request can carry"
            )
        return token

    def _read_client_certificate(self) -> tuple[str, str]:
        access, user = self._access, self._access.user
        certificate = access.read_pem("client-certificate", user.certificate, user.certificate_data)
        key = access.read_pem("client-key", user.key, user.key_data)
        if bool(certificate) != bool(key):
            raise access.unusable_error("the user has a client certificate or its key, and not both")
        if "ENCRYPTED" in key:
            raise access.unusable_error("client-key is encrypted; write it without a passphrase")
        return certificate, key


class _CachedCredential:
    """The last credential of a plugin, shared by all threads."""

    def __init__(self) -> None:
        self._run_lock = threading.Lock()
        self._latest: tuple[UserCredential, float] | None = None
        """The credential, and the time, in seconds since 1970, from which it is renewed."""
        self._failure: tuple[float, PermanentError] | None = None
        """The monotonic time at which the last run failed, and its error."""
        self._no_renewal_until = 0.0

    def read_unexpired(self) -> UserCredential | None:
        """Return the credential, or None if it has to be renewed."""
        return self._latest[0] if self._latest is not None and time.time() < self._latest[1] else None

    def renew(
        self, request_credential: Callable[[], UserCredential], refused: UserCredential | None = None
    ) -> UserCredential:
        """Return an unexpired credential, by default the cached one; after a refusal, a new one if the plugin has one.

        Raises PermanentError if the plugin fails.
        """
        requested_at = time.monotonic()
        # Other threads wait for this run of the plugin, and share its credential or its error.
        with self._run_lock:
            unexpired = self.read_unexpired()
            if unexpired is not None and unexpired != refused:
                return unexpired
            if self._failure is not None and self._failure[0] > requested_at:
                raise self._failure[1]
            if refused is not None and requested_at < self._no_renewal_until:
                return refused
            try:
                credential = request_credential()
            except PermanentError as error:
                self._failure = time.monotonic(), error
                raise
            expiry = float("inf") if credential.expires is None else credential.expires.timestamp()
            self._latest = credential, max(expiry - _RENEWAL_MARGIN_SECONDS, time.time() + _MIN_CACHE_SECONDS)
            if credential == refused:
                self.record_refused_replacement()
            return credential

    def record_refused_replacement(self) -> None:
        """Pause renewals after refusals, since the plugin has no better credential."""
        self._no_renewal_until = time.monotonic() + _REFUSAL_PAUSE_SECONDS


def _cached_credential_of(access: Access, plugin: Plugin) -> _CachedCredential:
    key = f"{plugin.model_dump_json()} {access.cluster_entry if plugin.provides_cluster_info else ''}"
    with _cache_lock:
        return _cached_by_plugin.setdefault(key, _CachedCredential())
