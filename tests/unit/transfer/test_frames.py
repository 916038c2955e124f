"""The protocol of the scripts in a loader's pod: frames in one direction, names in the other."""

import io
import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from trainstack.transfer.errors import BrokenConnectionError
from trainstack.transfer.frames import END_COMMAND, SHELL_FUNCTIONS, Frames, encode_names

FIELDS = st.lists(st.binary(max_size=12).map(lambda field: field.replace(b"\0", b"")), min_size=1, max_size=4)
NAME = st.one_of(
    st.sampled_from(["a\nb", "\n", "\\n", "\\\\n\\", "-rf", " end ", "a\r", os.fsdecode(b"\xff\xfe")]),
    st.text(min_size=1, max_size=20, alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
)


def encode(frames: list[list[bytes]]) -> bytes:
    """Return the frames as a script writes them, with the last one."""
    return b"".join(
        b"%d\0" % len(fields) + b"".join(field + b"\0" for field in fields) for fields in [*frames, [b"end"]]
    )


@given(st.lists(FIELDS.filter(lambda fields: fields[0] != b"end"), max_size=4))
def test_frames_arrive_as_they_were_sent(frames: list[list[bytes]]) -> None:
    """Fields may be empty, or look like a number or like the end."""
    received = Frames(io.BytesIO(encode(frames)), "answer")
    assert [[os.fsencode(field) for field in fields] for fields in received] == frames
    assert received.end == []


@given(st.lists(FIELDS.filter(lambda fields: fields[0] != b"end"), max_size=3), st.data())
def test_an_answer_that_is_cut_off_anywhere_is_noticed(frames: list[list[bytes]], data: st.DataObject) -> None:
    """The cut may also be between two frames."""
    encoding = encode(frames)
    cut = data.draw(st.integers(0, len(encoding) - 1))
    with pytest.raises(BrokenConnectionError, match="the answer was truncated"):
        list(Frames(io.BytesIO(encoding[:cut]), "answer"))


@pytest.mark.parametrize(
    "answer", [b"warning: x\n2\0", b"x\0end\0", b"0\0", b"-1\0a\0", b"9" * 5000 + b"\0", b"1.5\0a\0"]
)
def test_an_invalid_frame_is_not_used(answer: bytes) -> None:
    """Another program may write a message to the same output."""
    with pytest.raises(BrokenConnectionError, match="instead of a frame"):
        list(Frames(io.BytesIO(answer + encode([])), "answer"))


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"], ["bash"]], ids=" ".join)
@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 10)
@given(st.lists(NAME, max_size=40))
def test_every_shell_reads_and_writes_every_name(shell: list[str], names: list[str]) -> None:
    """A script returns the names as the fields of frames."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"this machine has no {shell[0]}")
    script = f'{SHELL_FUNCTIONS}\nwhile read_name; do frame name "$name"; done\n{END_COMMAND} 0'
    process = subprocess.run([*shell, "-c", script], input=encode_names(names), capture_output=True, check=True)
    frames = Frames(io.BytesIO(process.stdout), "answer")
    assert list(frames) == [["name", name] for name in names]
    assert frames.end == ["0"]
