"""Stacks whose secrets everyone can decrypt."""

from pathlib import Path

import pytest
import yaml

from tests.unit.make import make_settings
from trainstack.preflight.preflight import check
from trainstack.settings.sections.environment import Environment
from trainstack.settings.values.published_passphrase import protects

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = str(yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["encryptionsalt"])
"""Written by the engine."""
OTHER = "v1:eZ90ywdHy20=:v1:b7SnRQ3t6TcKqN6u:IuLJahnKs3r/Z0vsjR/xk6m3401U0w=="
"""Likewise, for the passphrase `correct horse`."""


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
def test_a_salt_tells_whose_passphrase_it_is(salt: str, published: bool) -> None:
    """Also one that was edited."""
    assert protects(salt) is published


@pytest.mark.parametrize(
    ("state", "file", "found"),
    [
        ("pulumi", f"encryptionsalt: {PUBLISHED}\n", True),
        ("embedded", f"encryptionsalt: {PUBLISHED}\n", False),
        ("pulumi", f"encryptionsalt: {OTHER}\n", False),
        ("pulumi", "secretsprovider: awskms://alias/lab\nencryptedkey: abc\n", False),
        ("pulumi", "encryptionsalt: [\n", False),
        ("pulumi", "- encryptionsalt\n", False),
        ("pulumi", "", False),
        ("pulumi", None, False),
    ],
)
def test_only_an_embedded_stack_may_have_the_published_passphrase(
    tmp_path: Path, state: str, file: str | None, found: bool
) -> None:
    """Another one is not deployed, by plain `pulumi` either."""
    if file is not None:
        (tmp_path / "Pulumi.test.yaml").write_text(file)
    environment = Environment.model_validate({"state": state})
    findings = [one for one in check(make_settings(environment=environment), tmp_path) if "passphrase" in one.id]
    assert [(one.id, one.path, one.stops) for one in findings] == (
        [("passphrase-published", "environment.state", True)] if found else []
    )
