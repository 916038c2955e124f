"""Which texts are credentials, and which settings have one."""

import re
from pathlib import Path

import pytest

from tests.copies import copy_into
from tests.unit.make import make_distributed, make_run, make_settings, make_space, make_storage, make_sweeps
from tests.unit.preflight.cases import ROOT
from trainstack.preflight.file_checks import check
from trainstack.settings.credential_search import find_credentials
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.model import Settings
from trainstack.settings.search_space.space import Parameter
from trainstack.settings.sections.secrets import SecretValue
from trainstack.settings.sections.storage import StorageClass
from trainstack.settings.sections.workloads import Role
from trainstack.settings.values.credential_text import (
    address_has_credential,
    conceal_credentials,
    find_in_text,
    find_in_variable,
)

HEX = "0123456789abcdef0123456789abcdef01234567"
"""The form of a commit, and of an API key of Weights & Biases."""
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    "text",
    [
        f"hf_{LETTERS}",
        f"--x={'ghp_' + LETTERS}",
        f"python train.py --key github_pat_{LETTERS}",
        f"glpat-{LETTERS[:20]}",
        "AKIAIOSFODNN7EXAMPLE",
        f"sk-{LETTERS}",
        f"sk-proj-{LETTERS}",
        f"sk-ant-api03-{LETTERS}",
        f"nvapi-{LETTERS}",
        f"xoxb-1234-{LETTERS}",
        f"pul-{HEX}",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3",
        "git clone https://ann:hunter2@example.org/x.git",
        "postgres://ann:hunter2@db/x",
        "https://ann:p%40ss@example.org/x",
        "redis://:hunter2@cache:6379",
        "https://store.example.org/x?sv=1&sig=abcdefghijklmnopqrstuvwxyz",
        f'curl -H "Authorization: Bearer {LETTERS}" https://example.org',
        f'{{"headers": {{"authorization": "token {LETTERS}"}}}}',
        f"wandb login {HEX}",
        f"import wandb\nwandb.login(key='{HEX}')",
        f'os.environ["WANDB_API_KEY"] = "{HEX}"',
        "aws configure set aws_secret_access_key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        f"--wandb-key={HEX}",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY python train.py",
        "${HF_TOKEN:-hf_abcdefghijklmnop}",
    ],
)
def test_a_known_form_is_certainly_a_credential(text: str) -> None:
    """Its place in the text does not matter."""
    assert any(found.is_certain for found in find_in_text(text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("--wandb-key=abc123def456", "--wandb-key"),
        ("python train.py --wandb-key abc123def456 --epochs 3", "--wandb-key"),
        ("--password=hunter2", "--password"),
        ("--hub_token abcdefg", "--hub_token"),
        ("python train.py \\\n  --hub-token \\\n  abcdefg", "--hub-token"),
        ("python train.py '--api-key' 'abcd1234'", "--api-key"),
        ("logger.wandb.api_key=abcd1234", "logger.wandb.api_key"),
        ("export DB_PASSWORD=hunter2\npython train.py", "DB_PASSWORD"),
        ("DB_PASSWORD='hunter2' python train.py", "DB_PASSWORD"),
        ('{"wandb": {"api_key": "abcd1234"}}', "api_key"),
        ('{\\"wandb\\": {\\"api_key\\": \\"abcd1234\\"}}', "api_key"),
        ("wandb:\n  api_key: abcdefgh\n", "api_key"),
        ("login(token='abcd1234')", "token"),
        ("--password=${CHOSEN:-hunter2}", "--password"),
        ("DefaultEndpointsProtocol=https;AccountKey=abcd1234efgh5678==;EndpointSuffix=x", "AccountKey"),
    ],
)
def test_the_value_of_a_name_is_probably_a_credential(text: str, name: str) -> None:
    """It may be in arguments, a script, JSON or YAML."""
    assert [(found.name, found.is_certain) for found in find_in_text(text)] == [(name, False)]


@pytest.mark.parametrize(
    "text",
    [
        "--token=$(HF_TOKEN)",
        "--token $HF_TOKEN",
        "--token ${HF_TOKEN}",
        "--token=${HF_TOKEN:-}",
        "--token=${parameters.token}",
        "export HF_TOKEN=$(cat /run/secrets/hf)",
        "HF_TOKEN=`cat /run/secrets/hf` python train.py",
        'test -n "$HF_TOKEN" || exit 1',
        'curl -H "Authorization: Bearer $TOKEN" https://example.org',
        'curl -H "Authorization: Bearer ${TOKEN}" https://example.org',
        "https://$USER:$PASSWORD@example.org/x",
        "https://oauth2:$(TOKEN)@gitlab.com/x.git",
        "https://oauth2:${TOKEN}@gitlab.com/x.git",
        "wandb login $WANDB_API_KEY",
        "wandb login --relogin",
        "wandb.login(key=os.environ['WANDB_API_KEY'])",
        "docker login -u ann -p $PASSWORD registry.example.org",
        "aws configure set aws_secret_access_key $KEY",
        "aws configure set region eu-west-1",
        "--wandb-key=",
        "--wandb-key=''",
        '{"password": ""}',
        '{"token": "$HF_TOKEN"}',
        "--token",
        "--token --next=abcdefgh",
        "--tokenizer=bert-base",
        "--num-tokens 10",
        "--max-token=512",
        "MAX_TOKENS=512",
        "TOKENIZERS_PARALLELISM=false",
        "--pad-token=<pad>",
        "--eos_token </s>",
        "--mask-token [MASK]",
        "--initializer_token abcdefgh",
        "--use-auth-token true",
        "--hub-token None",
        "--password-file=/run/secrets/x",
        "PASSWORD=/run/secrets/x",
        "KEY=abcdefgh1",
        "CACHE_KEY=abcdefgh1",
        "--sort-key loss12345",
        "--secret-name=hf-token-1",
        "API_KEY=EMPTY",
        "API_KEY=<your key>",
        "API_KEY=your-key-here",
        "import os\napi_key = os.environ['API_KEY']\ntoken = tokenizer.next()\nlogin(token=token)",
        "def train(token: str, password: Password = None): pass",
        "sk-learn-pipelines-experiment",
        "sk-no-key-required",
        "HF_HUB_ENABLE_HF_TRANSFER=1",
        "volumes:\n  - name: cert\n    secret:\n      secretName: webhook-cert-1\n",
        "env:\n  - secret: hugging-face-1\n    key: hf-token-1234\n",
        "secretEnv: {HF_TOKEN: {secret: hugging-face-1, key: hf-token-1234}}",
        "git@github.com:lab/train.git",
        "ssh://git@github.com/lab/train",
        "https://github.com/lab/train@v1",
        "registry.local/train@sha256:0123456789abcdef",
        HEX,
        "docker run -u 1000:1000 x",
        "OLDPWD=/mnt/abc1",
    ],
)
def test_references_placeholders_and_other_names_are_no_credentials(text: str) -> None:
    """Neither are a model's tokens, files and commits."""
    assert list(find_in_text(text)) == []


@pytest.mark.parametrize(
    ("name", "value", "is_certain"),
    [
        ("WANDB_API_KEY", "0123456789abcdef", True),
        ("HF_TOKEN", "abcdefghijkl", True),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE", True),
        ("DATABASE_URL", "postgres://ann:hunter2@db/x", True),
        ("WANDB_API_KEY", "abcd", False),
        ("DB_PASSWORD", "correct horse battery staple", False),
        ("PASSWORD", "1234", False),
        ("LAB_API_KEY_2", "abcd1234", False),
        ("X-Api-Key", "abcd1234", False),
        ("Authorization", "Bearer abcdefgh", False),
        ("WANDB_API_KEY", "", None),
        ("WANDB_API_KEY", "$(KEY)", None),
        ("HF_TOKEN", "none", None),
        ("NUM_TOKEN", "10", None),
        ("AUTH_TOKEN", "12", None),
        ("PASSWORD_FILE", "/run/secrets/x", None),
        ("TOKEN_PATH", "abcdefgh", None),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/google/key.json", None),
        ("GPG_KEY", "A035C8C19219BA821ECEA86B64E628F8D684696D", None),
        ("CACHE_KEY", "abcdefgh1", None),
        ("x" * 81 + "_TOKEN", "abcdefgh1", None),
    ],
)
def test_a_variable_has_a_credential_by_its_name_or_its_value(name: str, value: str, is_certain: bool | None) -> None:
    """None: it has none."""
    found = [credential.is_certain for credential in find_in_variable(name, value)]
    assert max(found, default=None) == is_certain


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://example.org/x", False),
        ("ssh://git@example.org/x", False),
        ("git@example.org:lab/x", False),
        ("https://ann@example.org/x", True),
        ("ssh://ann:hunter2@example.org/x", True),
        ("ann:hunter2@example.org:lab/x", True),
        (f"https://example.org/glpat-{LETTERS[:20]}/x", True),
    ],
)
def test_the_address_of_a_repository_has_no_credential(address: str, expected: bool) -> None:
    """A user name is one only in an https address."""
    assert address_has_credential(address) == expected


@pytest.mark.parametrize(
    "text",
    [
        "docker login -u ann -p hunter2 registry.example.org",
        "curl -u ann:hunter2 https://example.org",
        "sshpass -p hunter2 ssh example.org",
        "echo 'machine api.wandb.ai login user password hunter2' > ~/.netrc",
    ],
)
def test_a_login_has_a_credential(text: str) -> None:
    """In the command, or in the file that it writes."""
    assert [(found.description, found.is_certain) for found in find_in_text(text)] == [
        ("the credential of a login", False)
    ]
    assert "hunter2" not in conceal_credentials(text)


def test_a_concealed_text_has_the_rest_of_it() -> None:
    """Overlapping finds are concealed once."""
    text = f"--token=hf_{LETTERS} https://ann:hunter2@example.org/x --epochs 3"
    assert conceal_credentials(text) == "--token=[credential] https://[credential]@example.org/x --epochs 3"
    assert conceal_credentials("--epochs 3") == "--epochs 3"


@pytest.mark.parametrize(
    "text", ["a" * 131_000, "--key=" * 20_000, "://" * 40_000, "sk-" * 40_000, "a-" * 60_000, "curl -u " * 16_000]
)
def test_a_long_text_is_read_in_linear_time(text: str) -> None:
    """It has the length of the longest argument; quadratic time would be minutes."""
    assert list(find_in_text(text)) == []


def paths(settings: Settings) -> list[tuple[str, bool]]:
    return [(path, found.is_certain) for path, found in find_credentials(settings)]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"env": {"HF_TOKEN": "abcdefghijkl"}}, "env.HF_TOKEN"),
        ({"args": ("--epochs=1", "--wandb-key", HEX)}, "args[2]"),
        ({"command": ("sh", "-c", f"python x.py --wandb-key={HEX}")}, "command[2]"),
        ({"command": ("wandb", "login", HEX)}, "command"),
        ({"annotations": {"example.org/header": f"Bearer {LETTERS}"}}, 'annotations["example.org/header"]'),
        (
            {
                "pod_patch": {
                    "spec": {
                        "initContainers": [
                            {"name": "a", "image": "b", "env": [{"name": "HF_TOKEN", "value": f"hf_{LETTERS}"}]}
                        ]
                    }
                }
            },
            "podPatch.spec.initContainers[a].env[HF_TOKEN].value",
        ),
        (
            {"pod_patch": {"spec": {"containers": [{"name": "a", "image": "b", "args": [f"hf_{LETTERS}"]}]}}},
            "podPatch.spec.containers[a].args[0]",
        ),
    ],
)
def test_a_credential_has_its_path(changes: dict[str, object], path: str) -> None:
    """The file and line of a finding follow from it."""
    assert paths(make_settings(make_run(**changes))) == [(f"workloads.runs[train].{path}", True)]


def test_roles_and_sweeps_and_storage_are_examined() -> None:
    """A sweep's sets have the values of its space, so they are not examined again."""
    roles = {"Master": Role(env={"HF_TOKEN": LETTERS}), "Worker": Role(args=("--password=hunter2",))}
    assert paths(make_settings(make_distributed(roles=roles))) == [
        ("workloads.runs[train].roles.Master.env.HF_TOKEN", True),
        ("workloads.runs[train].roles.Worker.args[0]", False),
    ]
    space = make_space(
        args=(f"--wandb-key={HEX}",),
        env={"HF_TOKEN": LETTERS},
        parameters={"batch_size": Parameter(values=(32, 64)), "api_key": Parameter(values=("abcd1234", "efgh5678"))},
    )
    assert paths(make_settings(sweeps=make_sweeps(space=space))) == [
        ("sweeps.sweeps[search].space.parameters.api_key", False),
        ("sweeps.sweeps[search].space.args[0]", True),
        ("sweeps.sweeps[search].space.env.HF_TOKEN", True),
    ]
    classes = (StorageClass(name="shared", provisioner="example.org/x", parameters={"userPassword": "hunter2"}),)
    assert paths(make_settings(storage=make_storage(classes=classes))) == [
        ("storage.classes[shared].parameters.userPassword", False)
    ]


def test_a_finding_has_file_and_line_and_not_the_value(tmp_path: Path) -> None:
    """Of the environment's file, of a workload that it is based on, and of a sweep's space. A silence is respected."""
    copy_into(tmp_path, "defaults.yaml", "workloads", "sweeps", "Pulumi.dev.yaml", "Pulumi.sweeps.yaml")
    with (tmp_path / "workloads/digits/workload.yaml").open("a") as file:
        file.write("env:\n  HF_TOKEN: hf_abcdefghijklmnop\n")
    environment = tmp_path / "Pulumi.sweeps.yaml"
    environment.write_text(
        environment.read_text() + "          args: [--password, hunter2]\n  trainstack:checks:\n    silenced:\n"
        "      - {rule: credential-plain, path: 'sweeps.sweeps[mnist-single-job].run.args', reason: A test account.}\n"
    )
    space = tmp_path / "sweeps/mnist-single-job/space.yaml"
    space.write_text(space.read_text() + f"env:\n  WANDB_API_KEY: {HEX}\n")
    shown = {}
    for stack in ("dev", "sweeps"):
        loaded = load_with_places(tmp_path, stack)
        findings = [
            finding for finding in check(loaded.settings, tmp_path, loaded.places) if finding.id == "credential-plain"
        ]
        shown[stack] = [(str(finding.where), finding.severity, bool(finding.silence_reason)) for finding in findings]
        assert not [finding for finding in findings if re.search("hf_a|hunter2|0123456789", str(finding))]
    lines = {
        file: len((tmp_path / file).read_text().splitlines())
        for file in ("workloads/digits/workload.yaml", "sweeps/mnist-single-job/space.yaml", "Pulumi.sweeps.yaml")
    }
    assert (f"workloads/digits/workload.yaml:{lines['workloads/digits/workload.yaml']}", "error", False) in shown["dev"]
    assert shown["sweeps"] == [
        (f"sweeps/mnist-single-job/space.yaml:{lines['sweeps/mnist-single-job/space.yaml']}", "error", False),
        (f"Pulumi.sweeps.yaml:{lines['Pulumi.sweeps.yaml'] - 3}", "warning", True),
    ]


def test_other_findings_conceal_a_credential() -> None:
    """They show the beginning of an argument."""
    run = make_run(args=("--token=hf_abcdefghijklmnop --rank=$RANK",), kind="PyTorchJob", roles={"Master": Role()})
    findings = [finding.message for finding in check(make_settings(run), ROOT) if finding.id == "variable-unexpanded"]
    assert findings == ["'--token=[credential] --rank=$RANK' refers to $RANK, which no shell expands"]


def test_references_to_secrets_are_not_examined() -> None:
    """They have names of Secrets and keys: `token` is none."""
    patch = {
        "spec": {
            "volumes": [{"name": "s", "secret": {"secretName": "hf-token-1234"}}],
            "containers": [
                {
                    "name": "a",
                    "image": "b",
                    "env": [
                        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging1", "key": "hf-token-12"}}}
                    ],
                }
            ],
        }
    }
    run = make_run(
        secret_env={"HF_TOKEN": SecretValue(secret="hugging-face-1", key="hf-token-12")},
        args=("--token=$(HF_TOKEN)",),
        pod_patch=patch,
    )
    assert paths(make_settings(run)) == []
