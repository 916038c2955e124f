"""Versions as operators, programs and distributions of Kubernetes write them."""

import pytest

from trainstack.versions import parse_release, parse_version


@pytest.mark.parametrize(
    ("text", "version", "release"),
    [
        ("v0.15.2", "0.15.2", "0.15.2"),
        ("1.30", "1.30.0", "1.30.0"),
        ("v0.21.0-rc.3", "0.21.0-rc.3", "0.21.0"),
        ("v1.34.4+k3s1", "1.34.4+k3s1", "1.34.4"),
        ("v1.34.4-gke.1047000", "1.34.4-gke.1047000", "1.34.4"),
        ("v1.31.2-eks-7f9249a", "1.31.2-eks-7f9249a", "1.31.2"),
        # Leading zeros are no semver.
        ("v1.31.2-aks.007", "1.31.2", "1.31.2"),
        ("v1.30.1_custom", "1.30.1", "1.30.1"),
        ("24.04", "24.4.0", "24.4.0"),
        ("2024.01.15", "2024.1.15", "2024.1.15"),
        ("v0.015.2", "0.15.2", "0.15.2"),
    ],
)
def test_a_version_has_numbers_and_a_pre_release(text: str, version: str, release: str) -> None:
    """What semver does not permit after the numbers is dropped."""
    assert (str(parse_version(text)), str(parse_release(text))) == (version, release)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "v1",
        "20250101",
        "main",
        "v",
        "sha256:0123",
        "20240101-abc.def",
        "1-rc.1",
        "1.2.3.4",
        "1." + "9" * 5000,
        "\u0661.\u0662",
    ],
)
def test_other_texts_are_no_version(text: str) -> None:
    """A tag such as `v1` has no minor release, so nothing can be decided by it."""
    assert parse_version(text) is None
    assert parse_release(text) is None


def test_a_pre_release_precedes_its_release() -> None:
    """An upgrade from it is no downgrade."""
    texts = ("v0.20.9", "v0.21.0-rc.2", "v0.21.0-rc.10", "v0.21.0")
    versions = [version for text in texts if (version := parse_version(text))]
    assert sorted(versions, reverse=True) == versions[::-1]
