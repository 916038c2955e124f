"""Downloads of the release manifests that settings name by URL, into the user's cache.

An incomplete download is kept as `.part` and resumed. A file is used only after its sha256 is verified. The variables
HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE determine proxies and certificates.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from trainstack.live.proxies import proxy_of
from trainstack.platform.operators.release import (
    ChecksumMismatchError,
    DownloadError,
    RefusedDownloadError,
    ReleaseError,
    read_release,
)
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Manifest, Operators
from trainstack.settings.values.redaction import redact_url

MAX_BYTES = 64 << 20
"""The limit of a download. The largest release so far, of the training operator, has 3 MB."""
_TIMEOUT = httpx.Timeout(30, connect=10)
_REDIRECTS = 5
_REPORT_AFTER_SECONDS = 2.0
_REPORT_EVERY_SECONDS = 5.0
_MEGABYTE = 1_000_000
_LOOPBACK = ("127.0.0.1", "localhost")
_ALTERNATIVES = (
    "or download the file elsewhere and name it with `path` instead of `url`, or remove `manifest` to use the release "
    "that `trainstack up` builds"
)

Report = Callable[[str], None]
"""A function that prints one line of progress."""


class _RestartError(Exception):
    """The server does not resume the download, so it must start again."""


def download_folder() -> Path:
    """Return the folder of downloads, in the cache that trainstack/toolchain/places.py describes."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "trainstack" / "releases"


def fetch(operators: Operators, report: Report = lambda _: None) -> tuple[Operators, Mapping[str, DownloadError]]:
    """Download missing manifests. Return the operators with paths instead of URLs, and the errors by operator.

    An operator with an error keeps its URL.
    """
    fetched, errors = {}, {}
    for name, install in operators.installs.items():
        manifest = install.manifest
        if manifest.url is None:
            continue
        try:
            file = _fetch_release(name, manifest, manifest.url, report)
        except DownloadError as error:
            errors[name] = error
            continue
        local = manifest.model_copy(update={"path": str(file), "url": None})
        fetched[name.replace("-", "_")] = install.model_copy(update={"manifest": local})
    return operators.model_copy(update=fetched), errors


def with_downloads(settings: Settings, report: Report = lambda _: None) -> Settings:
    """Return the settings with downloaded releases. Raises DownloadError with all errors."""
    operators, errors = fetch(settings.operators, report)
    if errors:
        raise DownloadError("\n".join(map(str, errors.values())))
    return settings.model_copy(update={"operators": operators})


def _fetch_release(name: str, manifest: Manifest, url: str, report: Report) -> Path:
    file = download_folder() / f"{manifest.sha256}.yaml"
    if _sha256(file) == manifest.sha256:
        return file
    path, progress = f"{OPERATORS[name].path}.manifest", _Progress(f"{name} {manifest.version}", report)
    part = file.with_suffix(".part")
    with _explain_errors(url, part, f"{path}.url"), _lock_cache(file.parent):
        # Another process may have completed the download while this one waited for the lock.
        if _sha256(file) == manifest.sha256:
            return file
        digest = _download(url, part, manifest.sha256, progress)
        if digest == manifest.sha256:
            part.replace(file)
            return file
        part.unlink()
    raise ChecksumMismatchError(
        f"the file at {redact_url(url)} has sha256 {digest}, but {manifest.sha256} is pinned; nothing of it was used",
        "pin the digest that the release's publisher names; pin the one that was found only if you trust the file",
        path=f"{path}.sha256",
    )


@contextmanager
def _lock_cache(cache: Path) -> Iterator[None]:
    """Hold the lock of the cache during a download. The kernel releases it if the process is killed."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch_unpinned(title: str, url: str, report: Report = lambda _: None) -> str:
    """Download a release whose sha256 is not known yet into the cache, and return its sha256. Raises ReleaseError.

    The caller pins it: from then on the cached file is used, and another file at the address is refused.
    """
    part = download_folder() / f"{hashlib.sha256(url.encode()).hexdigest()}.part"
    with _explain_errors(url, part, ""), _lock_cache(part.parent):
        digest = _download(url, part, "", _Progress(title, report))
        try:
            # A proxy may answer with a page of its own.
            read_release(part, digest)
        except ReleaseError:
            part.unlink()
            raise
        part.replace(download_folder() / f"{digest}.yaml")
    return digest


def _download(url: str, part: Path, expected: str, progress: "_Progress") -> str:
    """Complete the file `part`, and return its sha256. Start again if the resumed file has another sha256."""
    with _new_client() as client:
        try:
            resumed = _receive(client, url, part, progress)
        except _RestartError:
            resumed = True
        if resumed and _sha256(part) != expected:
            # The incomplete file was the beginning of another file, or the server does not resume.
            part.unlink()
            _receive(client, url, part, progress)
    return _sha256(part)


def _new_client() -> httpx.Client:
    try:
        return httpx.Client(timeout=_TIMEOUT)
    except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
        raise DownloadError(
            f"the proxy or the certificates of the environment cannot be used ({error})",
            f"correct HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE, {_ALTERNATIVES}",
        ) from error


def _receive(client: httpx.Client, url: str, part: Path, progress: "_Progress") -> bool:
    """Append the rest of the file to `part`, or write all of it. Return whether the download was resumed."""
    offset = _size(part)
    with _open_response(client, httpx.URL(url), offset) as response:
        # A server may send a part of the file although no Range was requested. Then the sha256 does not match.
        resumed = offset > 0 and response.status_code == httpx.codes.PARTIAL_CONTENT
        if offset and response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise _RestartError
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
            raise _RestartError
        _ensure_file(response)
        received_bytes = offset if resumed else 0
        length = response.headers.get("Content-Length", "")
        total = received_bytes + int(length) if length.isdecimal() else None
        _ensure_size(total or 0, part)
        with part.open("ab" if resumed else "wb") as file:
            for chunk in response.iter_bytes():
                file.write(chunk)
                received_bytes += len(chunk)
                _ensure_size(received_bytes, part)
                progress.show(received_bytes, total)
    return resumed


@contextmanager
def _open_response(client: httpx.Client, url: httpx.URL, offset: int) -> Iterator[httpx.Response]:
    """Request the file from an offset on. Follow redirects to https, and http redirects between loopback addresses."""
    # A compressed response cannot be resumed.
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={offset}-"} if offset else {})}
    for _ in range(_REDIRECTS + 1):
        with client.stream("GET", url, headers=headers) as response:
            if not response.has_redirect_location:
                yield response
                return
            target = url.join(response.headers["Location"])
        if target.scheme != "https" and not (_is_plain_loopback(target) and _is_plain_loopback(url)):
            raise RefusedDownloadError(
                f"{redact_url(str(url))} redirects to {redact_url(str(target))}, which is not https, so it was not "
                "followed",
                f"name the file's final https address, {_ALTERNATIVES}",
            )
        url = target
    raise RefusedDownloadError(
        f"{redact_url(str(url))}: more than {_REDIRECTS} redirects", f"name the file's final address, {_ALTERNATIVES}"
    )


def _is_plain_loopback(url: httpx.URL) -> bool:
    return url.scheme == "http" and url.host in _LOOPBACK


def _ensure_file(response: httpx.Response) -> None:
    status, url = response.status_code, redact_url(str(response.url))
    if response.is_success:
        return
    answer = f"{response.url.host} answered {status} {response.reason_phrase}".rstrip()
    if status == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
        raise httpx.ProxyError(f"{status} {response.reason_phrase}")
    if status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
        raise RefusedDownloadError(
            f"{url} does not exist: {answer}", f"correct the version in the URL, {_ALTERNATIVES}"
        )
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise RefusedDownloadError(
            f"{url} needs credentials, and none are sent: {answer}", f"name a public address, {_ALTERNATIVES}"
        )
    if status == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error:
        raise DownloadError(f"{url} was not downloaded: {answer}", f"run the command again later, {_ALTERNATIVES}")
    raise RefusedDownloadError(f"{url} was not downloaded: {answer}", f"correct the URL, {_ALTERNATIVES}")


def _ensure_size(size: int, part: Path) -> None:
    if size > MAX_BYTES:
        part.unlink(missing_ok=True)
        raise RefusedDownloadError(
            f"the file has more than {MAX_BYTES // _MEGABYTE} MB, so it is not a release manifest",
            "correct the URL: it names a file of Kubernetes objects in YAML",
        )


@contextmanager
def _explain_errors(url: str, part: Path, path: str) -> Iterator[None]:
    """Convert the errors of a download to DownloadErrors with the setting's path, the cause and the remedy."""
    host, initial_size = redact_url(url).split("/")[2], _size(part)
    try:
        yield
    except DownloadError as error:
        raise type(error)(error.message, error.remedy, path=path) from error.__cause__
    # ProxyError, ConnectError and UnsupportedProtocol are TransportErrors, so their handlers come first.
    except httpx.ProxyError as error:
        raise DownloadError(
            f"the proxy {proxy_of(url)} refused the connection to {host} ({error})",
            f"have it allow the host, add the host to NO_PROXY if it is reachable directly, {_ALTERNATIVES}",
            path=path,
        ) from error
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise DownloadError(*_explain_connection_error(url, error), path=path) from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.DecodingError) as error:
        raise RefusedDownloadError(
            f"{redact_url(url)} was not downloaded ({error})", f"correct the URL, {_ALTERNATIVES}", path=path
        ) from error
    except httpx.TransportError as error:
        received = _size(part)
        raise DownloadError(
            f"the download from {host} was interrupted ({_cause(error)}) after {max(received - initial_size, 0)} "
            f"bytes; {received} bytes are kept",
            "run the command again: it resumes",
            path=path,
        ) from error
    except OSError as error:
        raise DownloadError(
            f"{error.filename or part}: {error.strerror or error}",
            "make the folder writable, or free space, and run the command again: it resumes",
            path=path,
        ) from error


def _explain_connection_error(url: str, error: Exception) -> tuple[str, str]:
    """Return the message and the remedy for a failed connection."""
    host, proxy, cause = httpx.URL(url).host, proxy_of(url), _cause(error)
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        return (
            f"the certificate of {host} is not trusted ({cause})",
            f"set SSL_CERT_FILE to a file with the certificates of your network, {_ALTERNATIVES}",
        )
    if proxy:
        return f"the proxy {proxy} does not respond ({cause})", f"correct HTTPS_PROXY or NO_PROXY, {_ALTERNATIVES}"
    return (
        f"{host} cannot be reached ({cause})",
        f"check the network and the name, set HTTPS_PROXY if this network has a proxy, {_ALTERNATIVES}",
    )


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _sha256(file: Path) -> str:
    """Return the sha256 of a file; "" if it does not exist."""
    if not file.is_file():
        return ""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Progress:
    """Progress of a download, printed in intervals if the download takes more than two seconds."""

    def __init__(self, title: str, report: Report) -> None:
        self._title, self._report = title, report
        self._next_report_time = time.monotonic() + _REPORT_AFTER_SECONDS

    def show(self, received_bytes: int, total_bytes: int | None) -> None:
        if time.monotonic() < self._next_report_time:
            return
        self._next_report_time = time.monotonic() + _REPORT_EVERY_SECONDS
        total_text = "" if total_bytes is None else f" of {total_bytes / _MEGABYTE:.1f}"
        self._report(f"downloading {self._title}: {received_bytes / _MEGABYTE:.1f}{total_text} MB")
