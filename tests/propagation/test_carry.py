"""The steps of a walk."""

from __future__ import annotations

import numpy as np
import torch

from propagation.scenes import two_blobs
from twoslice.planes import Plane
from twoslice.propagation.carry import FLOOR, Carrier, Crossing, Walk, log_odds, probabilities
from twoslice.propagation.registrars import Displacements
from twoslice.propagation.stacks import Stack


def still(count: int, size: tuple[int, int]) -> Displacements:
    return Displacements(torch.zeros(count, 2, *size), size)


def test_soft_classes_sum_to_one_on_the_whole_way() -> None:
    label = torch.from_numpy(two_blobs()[1])
    classes = torch.from_numpy(np.ascontiguousarray(np.moveaxis(two_blobs()[1][:, 17], 1, 0)))
    carrier = Carrier(
        classes=3,
        radii=(9.0, 7.0),
        opening=5,
        closing=5,
        crossings=(Crossing(1, 17, classes),),
    )
    walk = Walk(15, range(16, 32), still(16, (40, 36)), range(16))
    reached = {}

    def put(source: int, target: int, odds: torch.Tensor) -> None:
        reached[target] = probabilities(odds[None])[0]

    carrier.run([walk], {15: label[..., 15]}, torch.zeros(32, 1, 40, 36), put)
    assert sorted(reached) == list(range(16, 32))
    for soft in reached.values():
        torch.testing.assert_close(soft.sum(0), torch.ones(40, 36))
        assert soft.min() >= 0


def test_the_crossing_line_decides_on_the_line_in_the_end() -> None:
    """Carried as background everywhere, known as target on a line: it becomes target there."""
    carrier = Carrier(
        classes=2,
        radii=(8.0,),
        opening=1,
        closing=1,
        crossings=(Crossing(0, 10, torch.ones(20, 24)),),
    )
    mask = torch.zeros(20, 24)
    mask[0, 0] = 1
    last = {}

    def put(source: int, target: int, odds: torch.Tensor) -> None:
        last[target] = odds

    walk = Walk(0, range(1, 20), still(19, (20, 24)), range(19))
    carrier.run([walk], {0: mask}, torch.zeros(20, 1, 20, 24), put)
    assert (last[19][0, 10] > 0).all()
    assert (last[19][0, 19] < 0).all()


def test_log_odds_and_probabilities_undo_each_other() -> None:
    soft = torch.softmax(torch.randn(2, 4, 5, 6, generator=torch.Generator().manual_seed(0)), 1)
    torch.testing.assert_close(probabilities(log_odds(soft)), soft, atol=5 * FLOOR, rtol=0.02)


def test_ways_end_before_the_next_drawn_slice_and_shares_add_up() -> None:
    masks = {index: torch.ones(4, 5, dtype=torch.uint8) for index in (3, 8)}
    stack = Stack(Plane.AXIAL, torch.zeros(12, 1, 4, 5), masks)
    ways = {(source, targets[0]): list(targets) for source, targets in stack.pieces()}
    assert ways == {
        (3, 4): [4, 5, 6, 7],
        (3, 2): [2, 1, 0],
        (8, 9): [9, 10, 11],
        (8, 7): [7, 6, 5, 4],
    }
    for target in range(4, 8):
        assert stack.share(3, target) + stack.share(8, target) == 1
    assert stack.share(3, 4) > stack.share(8, 4)
    assert stack.share(3, 0) == stack.share(8, 11) == 1
