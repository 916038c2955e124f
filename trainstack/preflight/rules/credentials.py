"""The rule about credentials in plain text."""

import re
from collections.abc import Iterator

from trainstack.preflight.examples import hello
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.settings.credential_search import find_credentials
from trainstack.settings.values.credential_text import CredentialMatch


@Rule(
    id="credential-plain",
    may_be=("warning",),
    summary="A value of a run, or of another object, is a credential in plain text.",
    details=(
        "Everyone who reads the repository, the cluster's manifests, the engine's state or the run's record would have "
        "it. An error if the value has the form of a token, a key or an address with a password, or if it is that of a "
        "well-known variable such as `WANDB_API_KEY`; a warning if only its name suggests it. References such as "
        "`$(HF_TOKEN)`, and paths, are accepted. The finding never prints the value."
    ),
    change=hello("env: {DATABASE_PASSWORD: hunter2}"),
    remedy=(
        "Revoke it, store a new one with `pulumi config set --secret --path`, and refer to it by `secretEnv` "
        "([secrets](environments.md#secrets)); arguments then contain `$(NAME)`."
    ),
)
def credential_plain(context: RuleContext) -> Iterator[Violation]:
    for path, credential in find_credentials(context.settings):
        subject = (
            credential.description if credential.is_certain else f"{credential.description}, probably a credential,"
        )
        message = f"contains {subject} in plain text, which manifests, the engine's state and records would show"
        remedy = _remedy(credential) if path.startswith(("workloads", "sweeps")) else "remove it, and revoke it"
        yield Violation(path, message, remedy, None if credential.is_certain else "warning")


def _remedy(credential: CredentialMatch) -> str:
    words = re.sub("[^A-Za-z0-9]+", "_", credential.name).strip("_")
    variable = words.upper() or "TOKEN"
    return (
        "revoke it, and set a new one with `pulumi config set --secret --path "
        f"'trainstack:secrets.secrets[0].values.{variable}'`; refer to it with `secretEnv: {{{variable}: {{secret: "
        f"<its name>, key: {variable}}}}}`, in arguments as `$({variable})`"
    )
