"""The base image is Debian 12 on every machine, from the Debian mirrors that the machine uses or could use."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images.apt_sources import (
    MIRROR_VARIABLE,
    AptSource,
    acquire_settings,
    parse_deb822,
    parse_list,
    read_sources,
)

MIRROR = "http://mirror.example/debian"
SECURITY = "http://security.example/debian-security"
DEBIANS_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEBIAN_13 = "ID=debian\nVERSION_ID=13\nVERSION_CODENAME=trixie\n"
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n'
DEBIAN_12 = "ID=debian\nVERSION_ID=12\nVERSION_CODENAME=bookworm\n"
MICROSOFTS = "deb [arch=amd64 signed-by=/usr/share/keyrings/microsoft-prod.gpg] https://other.example {} main\n"


@pytest.fixture(autouse=True)
def _no_mirror_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)


def make_root(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def deb822(uri: str, suites: str, signed_by: str = DEBIANS_KEYS) -> str:
    return f"Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {signed_by}\n\n"


HOSTS: dict[str, dict[str, str]] = {
    "Debian 12, one-line style": {
        "etc/os-release": DEBIAN_12,
        "etc/apt/sources.list": f"""\
# deb cdrom:[Debian GNU/Linux 12 _Bookworm_ - Official amd64 NETINST]/ bookworm main
deb {MIRROR}/ bookworm main non-free-firmware
deb-src {MIRROR}/ bookworm main non-free-firmware
deb {SECURITY} bookworm-security main non-free-firmware
deb {MIRROR}/ bookworm-updates main non-free-firmware
""",
    },
    "Debian 12 with another archive's `bookworm main`": {
        "etc/os-release": DEBIAN_12,
        "etc/apt/sources.list.d/microsoft-prod.list": MICROSOFTS.format("bookworm"),
        "etc/apt/sources.list.d/debian.sources": deb822(MIRROR, "bookworm bookworm-updates")
        + deb822(SECURITY, "bookworm-security"),
    },
    "Debian 13, deb822 style": {
        "etc/os-release": DEBIAN_13,
        "etc/apt/sources.list.d/debian.sources": deb822(f"{MIRROR}/", "trixie")
        + deb822(f"{SECURITY}/", "trixie-security", "/usr/share/keyrings/debian-archive-keyring.pgp")
        + deb822(f"{MIRROR}/", "trixie-updates"),
    },
    "Debian 13, one-line style, with another archive's `trixie main`": {
        "etc/os-release": DEBIAN_13,
        "etc/apt/sources.list": f"deb {MIRROR} trixie main\ndeb {SECURITY} trixie-security main\n"
        f"deb {MIRROR} trixie-updates main\ndeb {MIRROR} trixie-backports main\n",
        "etc/apt/sources.list.d/a.list": MICROSOFTS.format("trixie"),
    },
    "Debian 13 by the name `stable`": {
        "etc/os-release": DEBIAN_13,
        "etc/apt/sources.list": f"deb {MIRROR} stable main\ndeb {SECURITY} stable-security main\n"
        f"deb {MIRROR} stable-updates main\n",
    },
    "Debian 13, image for clouds": {
        "etc/os-release": DEBIAN_13,
        "etc/apt/mirrors/debian.list": f"{MIRROR}\n",
        "etc/apt/mirrors/debian-security.list": f"{SECURITY}\tpriority:1\nhttp://second.example\n",
        "etc/apt/sources.list.d/debian.sources": deb822(
            "mirror+file:///etc/apt/mirrors/debian.list", "trixie trixie-updates trixie-backports"
        )
        + deb822("mirror+file:///etc/apt/mirrors/debian-security.list", "trixie-security"),
    },
}
UBUNTUS = {
    "Ubuntu, deb822 style": {
        "etc/os-release": UBUNTU,
        "etc/apt/sources.list": "# Ubuntu sources have moved to the file /etc/apt/sources.list.d/ubuntu.sources\n",
        "etc/apt/sources.list.d/ubuntu.sources": deb822(
            "http://ubuntu.example/ubuntu/", "noble noble-updates", "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
        ),
    },
    "Ubuntu, one-line style": {
        "etc/os-release": UBUNTU,
        "etc/apt/sources.list": "deb http://ubuntu.example/ubuntu noble main restricted universe\n",
    },
}


@pytest.mark.parametrize("host", HOSTS)
def test_debian_uses_its_mirrors(tmp_path: Path, host: str) -> None:
    """The machine's release does not matter: the archives of later releases have Debian 12, too."""
    assert [source.line for source in read_sources(make_root(tmp_path, HOSTS[host]))] == [
        f"deb {MIRROR} bookworm main",
        f"deb {SECURITY} bookworm-security main",
        f"deb {MIRROR} bookworm-updates main",
    ]


@pytest.mark.parametrize("host", UBUNTUS)
def test_ubuntu_uses_the_mirror_of_debootstrap(tmp_path: Path, host: str) -> None:
    """Ubuntu's archive has no Debian; its debootstrap has the archive of Debian."""
    script = f'#!/bin/sh\nDEF_MIRROR="{MIRROR}"\nDEF_HTTPS_MIRROR="https://other.example"\n'
    assert [
        source.line for source in read_sources(make_root(tmp_path, UBUNTUS[host] | {"usr/sbin/debootstrap": script}))
    ] == [
        f"deb {MIRROR} bookworm main",
        f"deb {MIRROR}-security bookworm-security main",
        f"deb {MIRROR} bookworm-updates main",
    ]


def test_debian_12_in_the_sources_of_ubuntu(tmp_path: Path) -> None:
    """It is preferred, and Ubuntu's own suites are never renamed."""
    files = {**UBUNTUS["Ubuntu, one-line style"], "etc/apt/sources.list.d/debian.list": f"deb {MIRROR} bookworm main\n"}
    assert read_sources(make_root(tmp_path, files)) == [AptSource("bookworm", MIRROR)]


def test_named_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It replaces the machine's mirror; the security archive is optional."""
    root = make_root(tmp_path, HOSTS["Debian 12, one-line style"])
    monkeypatch.setenv(MIRROR_VARIABLE, "http://own.example/debian/")
    own = "http://own.example/debian"
    assert read_sources(root) == [AptSource("bookworm", own), AptSource("bookworm-updates", own)]
    monkeypatch.setenv(MIRROR_VARIABLE, f"{own} {SECURITY}")
    assert read_sources(root)[1] == AptSource("bookworm-security", SECURITY)


@pytest.mark.parametrize(
    "entry",
    [
        "deb cdrom:[Debian]/ trixie main",
        "deb file:/srv/debian trixie main",
        "deb mirror+file:/etc/apt/missing.list trixie main",
        f"deb {MIRROR} trixie contrib",
        MICROSOFTS.format("trixie"),
    ],
)
def test_no_mirror_is_an_error_with_a_remedy(tmp_path: Path, entry: str) -> None:
    """Neither debootstrap nor the apt in the image could use these."""
    root = make_root(tmp_path, {"etc/os-release": DEBIAN_13, "etc/apt/sources.list": entry})
    with pytest.raises(
        LocalClusterError, match=r"etc/apt has no source of Debian .*: set TRAINSTACK_DEBIAN_MIRROR to the"
    ):
        read_sources(root)


def test_one_line_style() -> None:
    """Options and comments are skipped; source packages, other keys and other components do not count."""
    text = f"""\
# deb {MIRROR} bookworm main
deb [arch=amd64 signed-by={DEBIANS_KEYS}] {MIRROR}/ bookworm main contrib # ours
deb [ signed-by=/usr/share/keyrings/k.gpg arch=amd64 ] {MIRROR}/other bookworm main
deb-src {MIRROR} bookworm main
deb {MIRROR} bookworm-updates contrib
deb [trusted=yes] {MIRROR} tool-bookworm main
"""
    assert parse_list(text) == [AptSource("bookworm", MIRROR), AptSource("tool-bookworm", MIRROR)]


def test_deb822_style() -> None:
    """The input has paragraphs, continued lines, disabled entries, and a key instead of a file."""
    text = f"""\
Types: deb deb-src
# a comment
URIs: {MIRROR}
Suites: bookworm
 bookworm-updates
Components: main

Enabled: no
Types: deb
URIs: http://off.example
Suites: bookworm-security
Components: main

Types: deb
URIs: http://other.example
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 xsFNBF
 -----END PGP PUBLIC KEY BLOCK-----
"""
    assert parse_deb822(text) == [AptSource("bookworm", MIRROR), AptSource("bookworm-updates", MIRROR)]


def test_apt_inside_gets_only_what_reaches_the_mirror() -> None:
    """Proxies, retries and clock tolerance are copied, hooks and paths of the machine are not."""
    dump = 'APT::Architecture "amd64";\nAcquire::http::Proxy "http://p:1";\nAcquire::Check-Date "false";\n'
    assert acquire_settings(dump + 'DPkg::Post-Invoke:: "rm -f x";\n') == (
        'Acquire::http::Proxy "http://p:1";\nAcquire::Check-Date "false";\nAcquire::Languages "none";\n'
    )
