"""The search for the fewest slices against trying all sets of slices."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twoslice.annotation.cover import Slot, smallest_covers
from twoslice.planes import Plane


def every_smallest_cover(voxels: set[tuple[int, int, int]], most: int) -> set[frozenset[Slot]]:
    slots = {(plane, voxel[plane.axis]) for plane in Plane for voxel in voxels}
    for size in range(most + 1):
        found = {
            frozenset(chosen)
            for chosen in combinations(sorted(slots), size)
            if all(any((p, v[p.axis]) in chosen for p in Plane) for v in voxels)
        }
        if found:
            return found
    return set()


@given(
    voxels=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3)), max_size=12),
    most=st.integers(0, 4),
)
def test_all_smallest_covers_are_found_and_nothing_else(
    voxels: set[tuple[int, int, int]], most: int
) -> None:
    painted = np.zeros((4, 5, 4), dtype=bool)
    for voxel in voxels:
        painted[voxel] = True
    found = {frozenset(cover) for cover in smallest_covers(painted, at_most=most)}
    assert found == every_smallest_cover(voxels, most)


def test_a_large_dense_label_is_given_up_at_once() -> None:
    assert smallest_covers(np.ones((120, 120, 90), dtype=bool), at_most=6) == []
