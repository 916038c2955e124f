"""The content tags of images, stored: otherwise each command would hash 150 MB of built programs."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trainstack.dev.toolchain import digests
from trainstack.runs.images.images import content_tag


def tag_of(context: Path, build_args: Mapping[str, str], programs: Mapping[str, Path], memory: Path) -> str:
    """Return the `content_tag` of an image.

    `memory` is a folder with a file for each image whose programs all have a recorded digest, which `digests.verify`
    compares before the programs are used. Its name is the tag with the digests in the place of the programs.
    """
    recorded = {name: digests.recorded(path) for name, path in programs.items()}
    if not all(recorded.values()):
        return content_tag(context, build_args, programs=programs)
    if not programs:
        return content_tag(context, build_args)
    file = memory / content_tag(
        context, {**build_args, **{f"program {name}": digest for name, digest in recorded.items()}}
    )
    if file.is_file() and (tag := file.read_text(encoding="utf-8")):
        return tag
    tag = content_tag(context, build_args, programs=programs)
    if any(digests.sha256(path) != recorded[name] for name, path in programs.items()):
        return tag  # of a damaged program, which is replaced by one with the recorded digest
    with suppress(OSError):  # with a cache that cannot be written, the programs are hashed each time
        memory.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}-{os.getpid()}")
        draft.write_text(tag, encoding="utf-8")
        draft.replace(file)
    return tag
