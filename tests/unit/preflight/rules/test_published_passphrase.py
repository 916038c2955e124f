"""Stacks with the published passphrase, whose secrets anyone can decrypt."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from tests.unit.make import make_settings
from trainstack.preflight.file_checks import check
from trainstack.settings.sections.environment import Environment
from trainstack.settings.values.published_passphrase import uses_published_passphrase

ROOT = Path(__file__).resolve().parents[4]
PUBLISHED = str(yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["encryptionsalt"])
"""The engine wrote this salt."""
OTHER = "v1:eZ90ywdHy20=:v1:b7SnRQ3t6TcKqN6u:IuLJahnKs3r/Z0vsjR/xk6m3401U0w=="
"""The engine wrote this salt for the passphrase `correct horse`."""


@pytest.mark.parametrize(
    ("salt", "published"),
    [
        (PUBLISHED, True),
        (OTHER, False),
        ("", False),
        ("v1:eA==", False),
        ("v1:eA==:v1:eA==:eA==", False),
        (PUBLISHED.replace("v1:", "v2:", 1), False),
        ("v1:ü:v1:ü:ü", False),
    ],
)
def test_a_salt_shows_whether_the_passphrase_is_the_published_one(salt: str, published: bool) -> None:
    """An edited salt does not match."""
    assert uses_published_passphrase(salt) is published


def test_only_an_embedded_stack_may_have_the_published_passphrase() -> None:
    """Other stacks are not deployed, also not by plain `pulumi`. The engine reports files that it cannot read."""
    files = {
        f"encryptionsalt: {PUBLISHED}\n": ["passphrase-published"],
        f"encryptionsalt: {OTHER}\n": [],
        "secretsprovider: awskms://alias/lab\nencryptedkey: abc\n": [],
        "encryptionsalt: [\n": [],
        "encryptionsalt: 1\n": [],
        "- encryptionsalt\n": [],
        "": [],
    }
    with TemporaryDirectory() as folder:
        root = Path(folder)
        assert finding_ids(root, "pulumi") == []
        for text, expected in files.items():
            (root / "Pulumi.test.yaml").write_text(text)
            assert finding_ids(root, "pulumi") == expected, text
            assert finding_ids(root, "embedded") == [], text


def finding_ids(root: Path, state: str) -> list[str]:
    """Return the findings about an environment with this `state`."""
    return [
        finding.id
        for finding in check(
            make_settings(
                environment=Environment.model_validate({"state": state, "namespaces": ({"name": "research"},)})
            ),
            root,
        )
    ]
