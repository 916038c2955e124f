"""The proxies of the environment, for messages and decisions; httpx finds them by itself."""

from urllib.request import getproxies, proxy_bypass

import httpx


def proxy_of(url: str) -> str:
    """Return the address of the proxy for a URL, without its credentials; "" without a proxy."""
    parsed, proxies = httpx.URL(url), getproxies()
    if proxy_bypass(parsed.host):
        return ""
    return proxies.get(parsed.scheme, proxies.get("all", "")).rpartition("@")[2].removeprefix("http://").rstrip("/")
