"""Answers that no API server gives: of proxies, of login pages, of broken servers and networks."""

import gzip
import json
from collections.abc import Callable
from typing import Any

LOGIN = b"<!DOCTYPE html>\n<html><head><title>Sign in\x1b[2J</title></head></html>"


def answer(body: bytes, status: str = "200 OK", *headers: str, length: int | None = None) -> bytes:
    """Return a complete response; `length` replaces its Content-Length."""
    head = [
        f"HTTP/1.1 {status}",
        "Connection: close",
        f"Content-Length: {len(body) if length is None else length}",
        *(headers or ("Content-Type: application/json",)),
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def _chunked(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n" + body


def _without(good: bytes, *names: str) -> bytes:
    """Return a body without some fields, also of its items."""

    def left(item: Any) -> Any:
        return {name: value for name, value in item.items() if name not in names} if isinstance(item, dict) else item

    body = left(json.loads(good))
    return json.dumps({**body, "items": [*map(left, body["items"])]} if "items" in body else body).encode()


_HTML = "Content-Type: text/html"
_STATUS = b'{"kind": "Status", "apiVersion": "v1", "status": "Success"}'
_METADATA = b'"metadata": {"name": "s", "uid": "s"}'
_SECRET = b'{"kind": "Secret", %b, "items": [{%b}]}' % (_METADATA, _METADATA)
BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "a login page": lambda _: answer(LOGIN, "200 OK", _HTML),
    "a login page as JSON": lambda _: answer(LOGIN),
    "nothing": lambda _: answer(b""),
    "white space": lambda _: answer(b" \n"),
    "a cut body": lambda good: answer(good[: len(good) // 2]),
    "two bodies": lambda good: answer(good + good),
    "a list": lambda _: answer(b"[]"),
    "null": lambda _: answer(b"null"),
    "a number": lambda _: answer(b"7"),
    "not a number": lambda _: answer(b'{"metadata": NaN}'),
    "a text": lambda _: answer(b'"yes"'),
    "an empty object": lambda _: answer(b"{}"),
    "nested lists": lambda _: answer(b"[" * 200_000 + b"]" * 200_000),
    "a Status": lambda _: answer(_STATUS),
    "a Secret": lambda _: answer(_SECRET),
    "a number as kind": lambda _: answer(b'{"kind": 7, "metadata": {"name": "a", "uid": "a"}, "items": [7]}'),
    "no metadata": lambda _: answer(b'{"metadata": null, "items": [{"metadata": null}]}'),
    "empty metadata": lambda _: answer(b'{"metadata": {}, "items": [{"metadata": {}}]}'),
    "no spec": lambda good: answer(
        good if good[:1] != b"{" else _without(good, "spec", "gitVersion", "groups", "resources", "versions")
    ),
    "no items": lambda _: answer(b'{"apiVersion": "v1", "metadata": {}}'),
    "null as item": lambda _: answer(b'{"metadata": {}, "items": [null]}'),
    "an object as items": lambda _: answer(b'{"metadata": {}, "items": {"a": 1}}'),
    "half a character": lambda _: answer(b'{"metadata": {"name": "\\ud800", "uid": "a"}, "gitVersion": "\\ud800"}'),
    "bytes": lambda _: answer(bytes(range(256))),
    "UTF-16": lambda good: answer(good.decode().encode("utf-16")),
    "an unknown encoding": lambda _: answer(b"{", "200 OK", "Content-Type: application/json; charset=hex"),
    "a long length": lambda good: answer(good, length=len(good) + 10),
    "a short length": lambda good: answer(good, length=len(good) - 10),
    "a negative length": lambda good: answer(good, length=-1),
    "no status line": lambda _: b"220 smtp.example.org ESMTP\r\n\r\n",
    "no answer": lambda _: b"",
    "half a head": lambda _: b"HTTP/1.1 200 OK\r\nContent-Ty",
    "a broken chunk": lambda _: _chunked(b"zz\r\n{}\r\n"),
    "a cut chunk": lambda _: _chunked(b"ff\r\n{"),
    "no gzip": lambda good: answer(good, "200 OK", "Content-Encoding: gzip"),
    "half a gzip": lambda good: answer(gzip.compress(good)[:15], "200 OK", "Content-Encoding: gzip"),
    "a redirect to a login page": lambda _: answer(b"", "302 Found", "Location: /login"),
    "a redirect to itself": lambda _: answer(b"", "307 Temporary Redirect", "Location: ?"),
    "a redirect to nowhere": lambda _: answer(b"", "302 Found"),
    "a redirect to another protocol": lambda _: answer(b"", "301 Moved", "Location: ftp://x/"),
    "no content": lambda _: b"HTTP/1.1 204 No Content\r\n\r\n",
    "part of the content": lambda good: answer(good, "206 Partial Content"),
    "created": lambda good: answer(good, "201 Created"),
    "another protocol": lambda _: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "400": lambda _: answer(b'{"error": "bad request"}', "400 Bad Request"),
    "418": lambda _: answer(b"short and stout", "418 I'm a teapot"),
    "403 as text": lambda _: answer(b"Forbidden", "403 Forbidden", "Content-Type: text/plain"),
    "404 as text": lambda _: answer(b"default backend - 404", "404 Not Found", "Content-Type: text/plain"),
    "404 without text": lambda _: answer(b"", "404 Not Found"),
    "not modified": lambda _: b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "401": lambda _: answer(b"Unauthorized", "401 Unauthorized"),
    "403 of a proxy": lambda _: answer(LOGIN, "403 Forbidden", _HTML),
    "404 of a proxy": lambda _: answer(LOGIN, "404 Not Found", _HTML),
    "407": lambda _: answer(LOGIN, "407 Proxy Authentication Required", _HTML),
}
"""By what is wrong, the response to a path for which an API server has the given body."""
UNAVAILABLE: dict[str, Callable[[bytes], bytes]] = {
    "500": lambda _: answer(b'{"kind": "Status", "message": "etcd\\u001b[2J"}', "500 Internal Server Error"),
    "502": lambda _: answer(LOGIN, "502 Bad Gateway", _HTML),
    "503": lambda _: answer(b"no healthy upstream", "503 Service Unavailable"),
    "504": lambda _: answer(b"", "504 Gateway Timeout"),
    "429 for ever": lambda _: answer(b"slow down", "429 Too Many Requests", f"Retry-After: {'9' * 5000}"),
    "429": lambda _: answer(b"slow down", "429 Too Many Requests", "Retry-After: soon"),
}
"""Answers of servers and proxies that say that they cannot answer."""
