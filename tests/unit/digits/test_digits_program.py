"""The parts of the program that do not import torch: arguments, metrics, summaries, the stop signal."""

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from workloads.digits import metrics
from workloads.digits.errors import ProgramError
from workloads.digits.options import Options, parse
from workloads.digits.summaries import SummaryWriter, masked_crc, record

ROOT = Path(__file__).parents[3]


def test_the_defaults_are_the_reference_programs() -> None:
    """They are those of the widespread MNIST programs."""
    assert parse([]) == Options(
        backend="gloo",
        no_cuda=False,
        epochs=1,
        batch_size=64,
        test_batch_size=1000,
        lr=0.01,
        momentum=0.5,
        seed=1,
        log_interval=10,
        save_model=False,
        dir=None,
        data=Path("data"),
        output=Path("output"),
        checkpoint=None,
    )


@pytest.mark.parametrize(
    "arguments", [["--epochs=0"], ["--batch-size=-1"], ["--backend=smoke"], ["--lr=x"], ["--ep0chs=1"]]
)
def test_a_wrong_argument_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, and the message has the argument's name."""
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert arguments[0].partition("=")[0] in capsys.readouterr().err


def test_metrics_are_complete_lines_of_all_epochs(tmp_path: Path) -> None:
    """A second write replaces the file: no line is repeated, and no other file remains."""
    history: list[metrics.Metrics] = [{"epoch": 1, "val_loss": 0.5}, {"epoch": 2, "val_loss": 0.25}]
    metrics.write(tmp_path / "out", history[:1])
    metrics.write(tmp_path / "out", history)
    assert [json.loads(line) for line in (tmp_path / "out" / metrics.FILE).read_text().splitlines()] == history
    assert [path.name for path in (tmp_path / "out").iterdir()] == [metrics.FILE]


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """The message has the path and the remedy."""
    (tmp_path / "file").touch()
    with pytest.raises(ProgramError, match=r"cannot write .*file/metrics\.jsonl: .*the volume must be mounted"):
        metrics.write(tmp_path / "file", [])


def test_checksums_are_those_of_tensorboard() -> None:
    """CRC-32C of the standard's check string is e3069283; the mask rotates it by 15 and adds a constant."""
    crc = 0xE3069283
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_summaries_are_event_records(tmp_path: Path) -> None:
    """They are a version record and one per point, each readable by its length; the bytes are protobuf's."""
    writer = SummaryWriter(tmp_path / "logs")
    writer.scalar("val_loss", 0.5, 300)
    (file,) = (tmp_path / "logs").iterdir()
    assert file.name.startswith("events.out.tfevents.")
    content, events = file.read_bytes(), []
    while content:
        size = struct.unpack("<Q", content[:8])[0]
        events.append(content[12 : 12 + size])
        assert record(events[-1]) == content[: 16 + size]
        content = content[16 + size :]
    after_time = [event[9:] for event in events]
    point = b"\x0a\x08val_loss\x15" + struct.pack("<f", 0.5)
    assert after_time[0] == b"\x10\x00\x1a\x0dbrain.Event:2"
    assert after_time[1] == b"\x10\xac\x02\x2a" + bytes([len(point) + 2]) + b"\x0a" + bytes([len(point)]) + point


@pytest.mark.parametrize(
    ("stage", "code", "output"),
    [
        # A mutex locked twice: native code that ignores all signals.
        ("[libc.pthread_mutex_lock(mutex) for _ in 'ab']", 143, "stopped by SIGTERM before training started\n"),
        ("stop.defer()", 7, ""),
    ],
)
def test_a_stop_signal_ends_the_start_at_once_and_the_training_later(stage: str, code: int, output: str) -> None:
    """The main thread is in a call that no Python handler interrupts, as when it joins the other ranks."""
    program = f"""
import ctypes, os, signal, threading
from workloads.digits.stopping import StopSignal
stop, libc, mutex = StopSignal(), ctypes.CDLL(None), ctypes.create_string_buffer(64)
if "defer" in {stage!r}: {stage}
print("ready", flush=True)
{stage}
while not stop.has_arrived():
    libc.usleep(1000)
os._exit(7)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=15)
    assert (process.returncode, errors) == (code, output)


def test_help_needs_no_torch() -> None:
    """It is fast on any machine."""
    command = [sys.executable, "-m", "workloads.digits.train", "--help"]
    assert "--log-interval" in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_image_holds_the_program_and_its_two_scripts() -> None:
    """The files in the Dockerfile's COPY lines and in .dockerignore exist."""
    folder = ROOT / "workloads" / "digits"
    lines = (folder / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("COPY")] == [
        "COPY *.py /opt/digits/digits/",
        "COPY scripts/*.py /opt/digits/",
    ]
    assert {path.name for path in (folder / "scripts").glob("*.py")} == {"train.py", "evaluate.py"}
    assert (folder / "train.py").exists()
