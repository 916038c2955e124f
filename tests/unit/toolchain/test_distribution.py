"""The machines that can run the local cluster, by their release files."""

from pathlib import Path

import pytest

from trainstack.toolchain import distribution, machine
from trainstack.toolchain.distribution import Distribution, read_distribution

RELEASES = {
    "debian 11": 'NAME="Debian GNU/Linux"\nVERSION_ID="11"\nVERSION_CODENAME=bullseye\nID=debian\n',
    "debian 12": 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n',
    "debian 13": 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_ID="13"\nVERSION_CODENAME=trixie\nID=debian\n',
    "debian testing": 'PRETTY_NAME="Debian GNU/Linux forky/sid"\nVERSION_CODENAME=forky\nID=debian\n',
    "ubuntu 22.04": (
        'PRETTY_NAME="Ubuntu 22.04 LTS"\nVERSION_ID="22.04"\nVERSION_CODENAME=jammy\nID=ubuntu\nID_LIKE=debian\n'
    ),
    "ubuntu 24.04": (
        'PRETTY_NAME="Ubuntu 24.04 LTS"\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian\n'
    ),
    "fedora": 'NAME="Fedora Linux"\nID=fedora\nVERSION_ID=41\nPRETTY_NAME="Fedora Linux 41 (Server Edition)"\n',
    "alpine": 'NAME="Alpine Linux"\nID=alpine\nVERSION_ID=3.20.3\nPRETTY_NAME="Alpine Linux v3.20"\n',
    "arch": "NAME='Arch Linux'\n# rolling\nID=arch\nBUILD_ID=rolling\n",
    "mint": 'PRETTY_NAME="Linux Mint 22"\nID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n',
}


def make_root(folder: Path, release: str) -> Path:
    (folder / "etc").mkdir()
    (folder / "etc" / "os-release").write_text(RELEASES[release])
    return folder


@pytest.mark.parametrize("release", RELEASES)
def test_supported_releases(tmp_path: Path, release: str) -> None:
    """Debian 12 and later, Ubuntu 24.04 and later; neither older ones nor derived distributions."""
    supported = {"debian 12", "debian 13", "debian testing", "ubuntu 24.04"}
    assert read_distribution(make_root(tmp_path, release)).is_supported == (release in supported)


def test_fields(tmp_path: Path) -> None:
    """Quotes, comments and absent fields."""
    assert read_distribution(make_root(tmp_path, "arch")) == Distribution("arch", "Arch Linux")


def test_file_of_the_vendor(tmp_path: Path) -> None:
    """/etc has none where the vendor's file is in use."""
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/os-release").write_text(RELEASES["debian 13"])
    assert read_distribution(tmp_path) == Distribution("debian", "Debian GNU/Linux 13 (trixie)", (13,), "trixie")


def test_system_without_the_file(tmp_path: Path) -> None:
    """The system is not supported, and the message has a name for it."""
    assert (read_distribution(tmp_path).is_supported, read_distribution(tmp_path).name) == (
        False,
        "an unknown distribution",
    )


@pytest.mark.parametrize("release", ["fedora", "alpine", "ubuntu 22.04"])
def test_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    """The message has what works, what the local cluster requires, and the alternative."""
    host = read_distribution(make_root(tmp_path, release))
    monkeypatch.setattr(distribution, "read_distribution", lambda: host)
    assert str(machine.find_problems()[0]) == (
        f"only the native local cluster does not work on {host.name}; it requires Debian 12 or later, or Ubuntu 24.04 "
        "or later: start it on such a machine, or in kind (`trainstack cluster up --driver kind`); another cluster "
        "works, too: `make up KUBECONFIG=…`"
    )
