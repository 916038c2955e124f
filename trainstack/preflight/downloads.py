"""Commands in programs that download from other hosts."""

import re
from collections.abc import Iterator

_END = r"[^\n;&|]{0,1000}"
"""The rest of a shell command. It is limited, since the search in a long one takes quadratic time."""
_START = r"(?:^|[\s;&|(`'\"/])"
"""What may precede the name of a program: nothing, a blank, an operator of a shell, or its folder."""
_COMMANDS = (
    ("pip install", re.compile(rf"{_START}(?:uv[ ]+)?pip[0-9.]*[ ]+install[ ](?P<arguments>{_END})")),
    ("conda install", re.compile(rf"{_START}(?:conda|mamba|micromamba)[ ]+install[ ](?P<arguments>{_END})")),
    ("apt-get install", re.compile(rf"{_START}apt(?:-get)?[ ]+(?:-[a-z]+[ ]+)*install[ ](?P<arguments>{_END})")),
    ("git clone", re.compile(rf"{_START}git[ ]+clone[ ](?P<arguments>{_END}(?:https?://|ssh://|git@){_END})")),
    ("curl", re.compile(rf"{_START}curl[ ](?P<arguments>{_END}https?://{_END})")),
    ("wget", re.compile(rf"{_START}wget[ ](?P<arguments>{_END}https?://{_END})")),
    ("huggingface-cli download", re.compile(rf"{_START}(?:huggingface-cli|hf)[ ]+download[ ](?P<arguments>{_END})")),
    ("aws s3", re.compile(rf"{_START}aws[ ]+s3[ ]+(?:cp|sync)[ ](?P<arguments>{_END}s3://{_END})")),
    ("gsutil", re.compile(rf"{_START}(?:gsutil|gcloud[ ]+storage)[ ](?P<arguments>{_END}gs://{_END})")),
)
"""By name, the expressions for commands that download."""
_HOST = re.compile(r"(?:https?|ssh)://(?:[^/\s@'\"]*@)?(\[[^\]]*\]|[^/:\s'\"]+)")
_LOCAL_OPTIONS = re.compile(r"--no-index|--offline|--endpoint-url")
_PIP_OPTIONS_WITH_VALUE = re.compile(
    r"(?:^|[ ])(?:-[rctif]|--(?:requirement|constraint|target|index-url|extra-index-url|find-links|prefix|root|python))"
    r"(?:[ ]+|=)\S+"
)


def find_downloads(text: str) -> Iterator[str]:
    """Yield the names of the commands in a program's text that obviously download from outside the cluster.

    The text is a whole command line or a shell script. Commands that may only use files or hosts of the cluster are
    left out.
    """
    text = text.replace("\\\n", " ")
    for name, expression in _COMMANDS:
        if any(_is_from_outside(name, match["arguments"]) for match in expression.finditer(text)):
            yield name


def _is_from_outside(name: str, arguments: str) -> bool:
    if _LOCAL_OPTIONS.search(arguments):
        return False
    hosts = _HOST.findall(arguments)
    if hosts:
        return any(not _is_of_cluster(host) for host in hosts)
    if name != "pip install":
        return True
    if re.search(r"(?:^|[ ])(?:-r|--requirement)(?:[ ]|=)", arguments):
        return True
    targets = [word for word in _PIP_OPTIONS_WITH_VALUE.sub(" ", arguments).split() if not word.startswith("-")]
    return any(not re.match(r"[./$'\"]|.*\.whl\b", target) for target in targets)


def _is_of_cluster(host: str) -> bool:
    """Return whether a host may be in the cluster, or is not known."""
    return (
        "." not in host
        or "$" in host
        or host.startswith(("127.", "10.", "192.168.", "["))
        or host.endswith((".svc", ".cluster.local", ".local"))
    )
