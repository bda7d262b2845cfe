"""Two processes with a part of the batch each learn what one with the whole batch would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from networks import synced_of_two
from twoslice.networks.synced import synchronise


@pytest.mark.slow
def test_gradients_and_statistics_of_two_processes_are_those_of_the_whole_batch(
    tmp_path: Path,
) -> None:
    batch = 3.0 * torch.randn(4, 2, 6, 5, 4, generator=torch.Generator().manual_seed(0)) + 1.0
    save_file({"batch": batch}, tmp_path / "batch.safetensors")
    script = Path(synced_of_two.__file__)
    both = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path)],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    try:
        assert [process.wait(120) for process in both] == [0, 0]
    finally:
        for process in both:
            process.kill()
    whole = synced_of_two.step(synced_of_two.network(), batch, share=1.0)
    parts = [load_file(tmp_path / f"rank-{rank}.safetensors") for rank in range(2)]
    for name, value in whole.items():
        if name.startswith("1.running") or name.endswith("tracked"):
            for part in parts:
                torch.testing.assert_close(part[name], value, rtol=1e-4, atol=1e-5)
        else:
            joined = parts[0][name] + parts[1][name]
            torch.testing.assert_close(joined, value, rtol=1e-3, atol=1e-3)


def test_on_one_process_it_is_the_batch_norm_that_it_was() -> None:
    net, same = synced_of_two.network(), synced_of_two.network()
    synchronise(net)
    batch = torch.randn(2, 2, 5, 5, 5)
    assert torch.equal(net(batch), same(batch))
    assert net.state_dict().keys() == same.state_dict().keys()
    assert torch.equal(net.eval()(batch), same.eval()(batch))
