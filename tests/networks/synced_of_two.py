"""One of two processes with half a batch each, through a synchronised batch norm.

python synced_of_two.py RANK FOLDER: reads FOLDER/batch.safetensors, writes rank-RANK.safetensors.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as processes
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from twoslice.networks.synced import SyncedBatchNorm, synchronise


def network() -> nn.Sequential:
    """A batch norm between two convolutions, always the same."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4), nn.ReLU(), nn.Conv3d(4, 1, 1))


def step(net: nn.Module, batch: Tensor, *, share: float) -> dict[str, Tensor]:
    """The gradients of a loss that is a sum over the batch, and the running statistics."""
    out = net(batch)
    (share * (out.square().sum() + out.sin().sum())).backward()
    found = {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
    return found | {name: value.clone() for name, value in net.named_buffers()}


def main(rank: int, folder: Path) -> None:
    """Take the half of the batch that is this process's."""
    processes.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
    )
    net = network()
    synchronise(net)
    assert isinstance(net[1], SyncedBatchNorm)
    batch = load_file(folder / "batch.safetensors")["batch"]
    half = batch[:3] if rank == 0 else batch[3:]  # unequal: 3 patches and 1
    save_file(step(net, half, share=1.0), folder / f"rank-{rank}.safetensors")
    processes.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
