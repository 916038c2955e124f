"""The ranks of a run: the rank of this process, and the messages between ranks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .errors import ProgramError


@dataclass(frozen=True, kw_only=True)
class World:
    """One of `size` ranks. `control` is the gloo group for small messages; None: the default group."""

    rank: int
    size: int
    backend: str
    device: torch.device
    control: Any

    @property
    def first(self) -> bool:
        """Whether this is rank 0, the only one that reads and writes files: the others may not mount the volume."""
        return self.rank == 0

    def share(self, produce: Callable[[], bytes]) -> bytes:
        """Run `produce` on rank 0, and return its result on all ranks.

        A ProgramError on rank 0 is raised on every rank, so that no rank waits for one that has exited.
        """
        if self.size == 1:
            return produce()
        failure, body = False, b""
        if self.first:
            try:
                body = produce()
            except ProgramError as error:
                failure, body = True, str(error).encode()
        header = torch.tensor([failure, len(body)], dtype=torch.int64)
        dist.broadcast(header, 0, group=self.control)
        content = torch.zeros(max(1, int(header[1])), dtype=torch.uint8)
        if body:
            content = torch.frombuffer(bytearray(body), dtype=torch.uint8)
        dist.broadcast(content, 0, group=self.control)
        received = body if self.first else content.numpy().tobytes()[: int(header[1])]
        if header[0]:
            raise ProgramError(received.decode())
        return received

    def sum(self, *values: float) -> list[float]:
        """Return the sums over all ranks."""
        total = torch.tensor(values, dtype=torch.float64)
        if self.size > 1:
            dist.all_reduce(total, group=self.control)
        return [float(value) for value in total]

    def gather(self, value: float) -> list[float]:
        """Return the value of each rank, by rank."""
        return self.sum(*(value if rank == self.rank else 0.0 for rank in range(self.size)))

    def any(self, *, flag: bool) -> bool:
        """Return whether `flag` is set on any rank."""
        return self.sum(flag)[0] > 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model with gradients averaged over the ranks; with one rank, the model itself."""
        if self.size == 1:
            return model
        devices = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices)

    def leave(self) -> None:
        """Close the connections."""
        if self.size > 1:
            dist.destroy_process_group()


def join(backend: str, environment: Mapping[str, str], *, no_cuda: bool) -> World:
    """Connect to the other ranks by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which PyTorchJob and torchrun set.

    Waits until all ranks have connected, at most half an hour, torch's default. Without the variables, there is one
    rank. Raises ProgramError.
    """
    rank, size = _number(environment, "RANK", 0), _number(environment, "WORLD_SIZE", 1)
    required = ("RANK", "MASTER_ADDR", "MASTER_PORT") if size > 1 else ()
    if missing := [name for name in required if not environment.get(name)]:
        raise ProgramError(
            f"WORLD_SIZE is {size}, but {', '.join(missing)} must be set, too: start all ranks with a PyTorchJob or "
            "torchrun, or unset WORLD_SIZE to train in one process"
        )
    cuda = torch.cuda.is_available() and not no_cuda
    if backend == "nccl" and not (cuda and dist.is_nccl_available()):
        reason = "--no-cuda is set" if no_cuda else "torch finds no usable GPU"
        raise ProgramError(f"--backend nccl requires CUDA, but {reason}; use --backend gloo, or request a GPU")
    if backend == "mpi" and not dist.is_mpi_available():
        raise ProgramError("--backend mpi requires a torch that is built with MPI; use --backend gloo")
    device = torch.device("cpu")
    if cuda:
        device = torch.device("cuda", _number(environment, "LOCAL_RANK", rank % torch.cuda.device_count()))
        torch.cuda.set_device(device)
    control = None
    if size > 1:
        try:
            dist.init_process_group(backend, rank=rank, world_size=size)
            control = dist.new_group(backend="gloo") if backend == "nccl" else None
        except (RuntimeError, ValueError) as error:
            master = f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"
            raise ProgramError(f"rank {rank} of {size} cannot connect to the others at {master}: {error}") from error
    return World(rank=rank, size=size, backend=backend, device=device, control=control)


def _number(environment: Mapping[str, str], name: str, unset: int) -> int:
    text = environment.get(name, "")
    if not text:
        return unset
    if not text.isdecimal():
        raise ProgramError(f"the variable {name} is {text!r}; it must be an integer of at least 0")
    return int(text)
