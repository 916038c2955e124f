"""The base image comes from the Debian mirrors that the machine uses."""

from pathlib import Path

import pytest

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.images.sources import Source, acquire_settings, parse_deb822, parse_list, read

MIRROR = "http://mirror.example/debian"


def test_one_line_style() -> None:
    """Options and comments are passed over; source packages, other suites and other components do not count."""
    text = f"""\
# deb {MIRROR} bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] {MIRROR}/ bookworm main contrib # ours
deb-src {MIRROR} bookworm main
deb {MIRROR} bookworm-updates contrib
deb {MIRROR} tool-bookworm main
"""
    assert parse_list(text) == [Source("bookworm", MIRROR)]


def test_deb822_style() -> None:
    """Paragraphs, continued lines and disabled entries."""
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
"""
    assert parse_deb822(text) == [Source("bookworm", MIRROR), Source("bookworm-updates", MIRROR)]


def test_read_gives_each_suite_once_and_the_release_first(tmp_path: Path) -> None:
    """Both styles together; of two mirrors of a suite the first named is used."""
    (tmp_path / "sources.list").write_text(f"deb {MIRROR} bookworm-security main\ndeb {MIRROR} bookworm main\n")
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "more.list").write_text("deb http://second.example bookworm main\n")
    assert [source.line for source in read(tmp_path)] == [
        f"deb {MIRROR} bookworm main",
        f"deb {MIRROR} bookworm-security main",
    ]


def test_no_mirror_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """It names the folder, the suite and what to add."""
    with pytest.raises(ClusterError, match=r"has no source of Debian 12 \(suite bookworm.*add one.*sources\.list\.d"):
        read(tmp_path)


def test_apt_inside_gets_only_what_reaches_the_mirror() -> None:
    """Proxies, retries and clock tolerance go along, hooks and paths of the machine do not."""
    dump = 'APT::Architecture "amd64";\nAcquire::http::Proxy "http://p:1";\nAcquire::Check-Date "false";\n'
    assert acquire_settings(dump + 'DPkg::Post-Invoke:: "rm -f x";\n') == (
        'Acquire::http::Proxy "http://p:1";\nAcquire::Check-Date "false";\nAcquire::Languages "none";\n'
    )
