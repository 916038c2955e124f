"""The passphrase of embedded states, which is public: this repository contains it."""

import base64
import hashlib
from functools import cache

PUBLISHED_PASSPHRASE = "trainstack-dev"  # noqa: S105 (public, see above)
_ITERATIONS = 1_000_000
_KEY_BYTES = 32


@cache
def uses_published_passphrase(salt: str) -> bool:
    """Return whether an `encryptionsalt` of a stack's file belongs to the published passphrase, in half a second.

    The engine writes `v1:<salt>:v1:<nonce>:<ciphertext>` in base64, AES-256-GCM of the word "pulumi". Source:
    pkg/secrets/passphrase/manager.go and sdk/go/common/resource/config/crypt.go.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 (slow to load, and rarely needed)
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    try:
        (version, salt_text, _, nonce, ciphertext) = salt.split(":")
        if version != "v1":
            return False
        parts = [base64.b64decode(part) for part in (salt_text, nonce, ciphertext)]
        key = hashlib.pbkdf2_hmac("sha256", PUBLISHED_PASSPHRASE.encode(), parts[0], _ITERATIONS, _KEY_BYTES)
        return AESGCM(key).decrypt(parts[1], parts[2], None) == b"pulumi"
    except (ValueError, InvalidTag):
        return False
