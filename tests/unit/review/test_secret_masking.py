"""No secret reaches a report."""

import pytest

from tests.unit.review.samples import recorded, steps_json
from trainstack.review.engine import build_report
from trainstack.review.secret_masking import (
    SIGNATURE,
    LeakError,
    config_secrets,
    environment_secrets,
    mask,
    refuse_plaintext,
)

DIFF = """\
Previewing update (dev):
    + kubernetes:core/v1:Secret: (create)
        [urn=urn:pulumi:dev::p::kubernetes:core/v1:Secret::research/key]
        apiVersion: "v1"
        data      : {
            token: "aHVudGVyMg=="
        }
        kind      : "Secret"
        metadata  : {
            name: "key"
        }
    ~ kubernetes:core/v1:Secret: (update)
        [id=research/other]
      ~ stringData: {
          ~ password: "hunter2" => "hunter3"
        }
    + kubernetes:core/v1:ConfigMap: (create)
        data: {
            token: "no secret"
        }
"""


def test_the_data_of_a_secret_is_hidden() -> None:
    """The engine marks it secret or not; other fields stay."""
    text, objects = recorded("queues")
    text.stdout = DIFF
    diff = build_report("dev", None, text, objects, set()).diff
    assert "aHVudGVyMg" not in diff
    assert "hunter" not in diff
    assert diff.count("[secret]") == 2
    assert 'name: "key"' in diff
    assert "no secret" in diff


def test_a_decrypted_value_in_the_json_is_refused() -> None:
    """Its depth does not matter."""
    value = {SIGNATURE: "1b47061264138c4ac30d75fd1eb44270", "plaintext": '"hunter2"'}
    text, objects = recorded("queues")
    objects.stdout = steps_json({"op": "create", "newState": {"inputs": {"data": [value]}}})
    with pytest.raises(LeakError, match="--show-secrets") as caught:
        build_report("dev", None, text, objects, set())
    assert "hunter2" not in str(caught.value)


def test_an_encrypted_value_is_no_leak() -> None:
    """It stays encrypted."""
    refuse_plaintext({"a": {SIGNATURE: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:abc"}})


def test_secrets_of_the_configuration_are_found_by_their_place() -> None:
    """A whole section may be secret, and an item of a list."""
    stored = {"a": {"b": [{"c": "plain"}, {"c": {"secure": "v1:x"}}]}, "d": {"secure": "v1:y"}, "e": "plain"}
    decrypted = {"a": {"b": [{"c": "plain"}, {"c": "hunter2"}]}, "d": {"f": ["swordfish"]}, "e": "plain"}
    assert set(config_secrets(stored, decrypted)) == {"hunter2", "swordfish"}


def test_secrets_of_the_environment_are_found_by_their_names() -> None:
    """Paths of files are not secrets, nor are words too short to hide."""
    variables = {
        "PULUMI_CONFIG_PASSPHRASE": "correct horse",
        "PULUMI_CONFIG_PASSPHRASE_FILE": "/run/passphrase",
        "GITHUB_TOKEN": "ghs_abcdef",
        "PULUMI_ACCESS_TOKEN": "/abcDEF123",
        "KUBECONFIG": "/run/kubeconfig",
        "USE_TOKEN": "yes",
        "TRAINSTACK_KUBECONFIG": "users:\n- name: ci\n  user:\n    token: eyJhbGciOi\n",
        "HOME": "/home/me-and-you",
    }
    secrets = environment_secrets(variables)
    assert {"correct horse", "ghs_abcdef", "/abcDEF123", "eyJhbGciOi"} <= secrets
    assert not {"yes", "ci", "/run/passphrase", "/run/kubeconfig", "/home/me-and-you"} & secrets


def test_values_are_hidden_everywhere_in_a_report() -> None:
    """The diff, the facts, the warnings and the errors are masked; the longest value first."""
    text, objects = recorded("queues")
    result = build_report("dev", None, text, objects, {"research", "research/extra", "digits"})
    assert "research" not in result.model_dump_json()
    assert "digits" not in result.model_dump_json()
    text, objects = recorded("refused")
    assert "digits" not in build_report("dev", None, text, objects, {"digits"}).error
    assert mask("abc ab", {"ab", "abc", " "}) == "[secret] [secret]"
