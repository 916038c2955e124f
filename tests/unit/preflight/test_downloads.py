"""Commands that obviously download are found in programs, and others are not."""

import time

import pytest

from trainstack.preflight.downloads import find_downloads


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sh -c pip install -q transformers==4.1 && python3 train.py", ["pip install"]),
        ("python3 -m pip install -r requirements.txt", ["pip install"]),
        ("uv pip install --target /tmp/x torch", ["pip install"]),
        ("pip install git+https://github.com/a/b", ["pip install"]),
        ("pip install \\\n  torch", ["pip install"]),
        ("conda install -y numpy", ["conda install"]),
        ("apt-get update; apt-get -y install git", ["apt-get install"]),
        ("git clone --depth 1 https://github.com/a/b /code", ["git clone"]),
        ("git clone git@github.com:a/b", ["git clone"]),
        ("curl -L https://example.org/a.tar | tar x", ["curl"]),
        ("/usr/bin/wget https://user@example.org/a", ["wget"]),
        ("hf download meta-llama/x", ["huggingface-cli download"]),
        ("aws s3 cp s3://bucket/a /data; gsutil cp gs://bucket/a /data", ["aws s3", "gsutil"]),
    ],
)
def test_commands_that_download_are_found(text: str, expected: list[str]) -> None:
    assert list(find_downloads(text)) == expected


def test_long_programs_take_little_time() -> None:
    """Linux limits an argument to 128 KiB."""
    start = time.process_time()
    assert list(find_downloads("curl wget git clone " * 6_500)) == []
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "text",
    [
        "python3 train.py --git clone",
        "pip install --no-index --find-links /wheels torch",
        "pip install --no-deps -e .",
        "pip install /code/dist/a-1.0.whl",
        "pip install -i http://pypi:8080/simple torch",
        "git clone /mnt/repository /code",
        "curl http://localhost:8080/health; curl http://metrics.monitoring.svc/push",
        "wget http://127.0.0.1/a",
        "curl $URL",
        "aws s3 cp --endpoint-url http://minio:9000 s3://bucket/a /data",
        "python3 pip_install.py --url https://example.org",
        "pip list",
    ],
)
def test_other_commands_are_not_found(text: str) -> None:
    """They use files, or hosts of the cluster, or a variable decides."""
    assert list(find_downloads(text)) == []
