"""The passphrase of embedded states, which is public: this repository contains it."""

import base64
import hashlib
from functools import cache

PUBLISHED = "trainstack-dev"
_ITERATIONS = 1_000_000
_KEY_BYTES = 32


@cache
def protects(salt: str) -> bool:
    """Return whether an `encryptionsalt` of a stack's file belongs to the published passphrase, in half a second.

    The engine writes `v1:<salt>:v1:<nonce>:<ciphertext>` in base64, AES-256-GCM of the word "pulumi". Source:
    pkg/secrets/passphrase/manager.go and sdk/go/common/resource/config/crypt.go.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 (slow to load, and rarely needed)
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    try:
        (form, salted, _, nonce, ciphertext) = salt.split(":")
        if form != "v1":
            return False
        parts = [base64.b64decode(part) for part in (salted, nonce, ciphertext)]
        key = hashlib.pbkdf2_hmac("sha256", PUBLISHED.encode(), parts[0], _ITERATIONS, _KEY_BYTES)
        return AESGCM(key).decrypt(parts[1], parts[2], None) == b"pulumi"
    except (ValueError, InvalidTag):
        return False
