"""Names of variables, arguments and keys that have a credential as their value."""

import re
from typing import Literal

MAX_LENGTH = 80
"""Characters of a name; a longer word is not examined."""
CredentialKind = Literal["", "password", "token", "key"]


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WELL_KNOWN = word_set(
    """
    WANDB_API_KEY HF_TOKEN HF_API_TOKEN HUGGING_FACE_HUB_TOKEN HUGGINGFACEHUB_API_TOKEN HUGGINGFACE_TOKEN HF_HUB_TOKEN
    AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN GITHUB_TOKEN GH_TOKEN GITLAB_TOKEN OPENAI_API_KEY ANTHROPIC_API_KEY
    COMET_API_KEY NEPTUNE_API_TOKEN MLFLOW_TRACKING_PASSWORD MLFLOW_TRACKING_TOKEN NGC_API_KEY NGC_CLI_API_KEY
    KAGGLE_KEY AZURE_STORAGE_KEY AZURE_CLIENT_SECRET GOOGLE_API_KEY GEMINI_API_KEY CLEARML_API_SECRET_KEY
    PULUMI_ACCESS_TOKEN PULUMI_CONFIG_PASSPHRASE PGPASSWORD MYSQL_PWD POSTGRES_PASSWORD REDIS_PASSWORD
    MINIO_ROOT_PASSWORD MINIO_SECRET_KEY DOCKER_PASSWORD SLACK_BOT_TOKEN
    """
)
"""Variables whose value, for every program that reads them, is a credential."""
_OWNERS_OF_KEYS = word_set(
    """
    access account api auth authorization encryption license private secret service session shared signing ssh
    storage subscription anthropic aws azure clearml cohere comet datadog gcp google groq hf huggingface kaggle
    langsmith minio mistral mlflow neptune ngc openai pinecone s3 sentry swanlab wandb
    """
)
"""The words before `key` in names of credentials, unlike those of `CACHE_KEY` and `--sort-key`."""
_MODEL_TOKENS = word_set(
    """
    audio begin bos class cls dist end eos image initializer instance learned mask max min next num pad per placeholder
    sep special start stop think trigger unk video vision no use
    """
)
"""The words before `token` in names of a model's tokens, and of flags."""
_NUMBERS_OF_PASSES = word_set("backward first forward max multi n no num one second single two")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_KEY_SUFFIXES = ("secret", "credential", "credentials", "apikey", "secretkey", "accesskey", "privatekey")


def is_well_known(name: str) -> bool:
    """Return whether the value of a variable of this name is a credential for every program that reads it."""
    return name in _WELL_KNOWN


def name_words(name: str) -> list[str]:
    """Return the words of a name in lower case: `awsSecretKey` and `AWS_SECRET_KEY_2` have the same words."""
    return [part.lower() for part in _WORD.findall(name)]


def credential_kind(name: str) -> CredentialKind:
    """Return the kind of credential that a name suggests; empty if it suggests none."""
    words = name_words(name) if len(name) <= MAX_LENGTH else []
    last_word, previous_word = (words[-1], words[-2] if len(words) > 1 else "") if words else ("", "")
    if _is_password(last_word, previous_word):
        return "password"
    if last_word == "authorization" or (last_word.endswith("token") and previous_word not in _MODEL_TOKENS):
        return "token"
    if last_word in ("jwt", "pat") and previous_word:
        return "token"
    return (
        "key" if last_word.endswith(_KEY_SUFFIXES) or (last_word == "key" and previous_word in _OWNERS_OF_KEYS) else ""
    )


def refers_to_secret(name: str) -> bool:
    """Return whether the value of a field of this name is the name of a Secret or of a key in one."""
    words = name_words(name)
    return words in (["key"], ["token"]) or (words[-1:] == ["secret"] and words[-2:-1] != ["client"])


def _is_password(last_word: str, previous_word: str) -> bool:
    if last_word == "pwd":
        return previous_word not in ("", "old")
    if last_word == "pass":
        return previous_word != "" and previous_word not in _NUMBERS_OF_PASSES
    return last_word.endswith(("password", "passwd", "passphrase"))
