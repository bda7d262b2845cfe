"""CoraNet: two heads with opposite costs; certain is where they agree."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from methods.toys import PATCH, batch, build
from twoslice.methods.base import View
from twoslice.methods.coranet import CoraNet, costly


def coranet(**sections: object) -> CoraNet:
    method = build("coranet", **sections)
    assert isinstance(method, CoraNet)
    return method


def test_the_certain_region_is_where_the_two_heads_agree() -> None:
    scores = torch.randn(2, 9, *PATCH)
    pseudo, certain = coranet().agreed(scores)
    conservative, radical = scores[:, 3:6].argmax(1), scores[:, 6:].argmax(1)
    assert torch.equal(certain, conservative == radical)
    assert torch.equal(pseudo[certain], radical[certain])
    assert 0 < float(certain.float().mean()) < 1


def test_certain_voxels_train_on_their_label_and_the_others_on_the_teacher() -> None:
    method, given = coranet(semi={"weight": 0.5}), batch()
    with torch.no_grad():
        scores = method.networks[0](given.images)[1:]
    pseudo, certain = method.agreed(scores)
    torch.manual_seed(3)
    target = method.teacher.scores(given.unlabeled)[:, :3].softmax(1)
    per_voxel = F.cross_entropy(scores[:, :3], pseudo, reduction="none")
    apart = (scores[:, :3].softmax(1) - target).square().mean(1)
    torch.manual_seed(3)
    terms = method.losses(given, 1.0).terms
    torch.testing.assert_close(terms["cross"].detach(), 0.5 * per_voxel[certain].mean())
    torch.testing.assert_close(terms["consistency"].detach(), 0.5 * apart[~certain].mean())


def test_on_doubtful_voxels_the_conservative_head_says_background_and_the_radical_one_not() -> None:
    """A toy: one score a class for the whole patch, foreground on 3 voxels of 10. The costs 5:1 and
    1:5 put the odds of foreground at 3/35 and 15/7: there the gradient is 0.
    """
    label = torch.zeros(1, 10, 1, 1, dtype=torch.int64)
    label[:, :3] = 1
    views = [View(label, torch.zeros_like(label))]
    for background, foreground, odds in ((5.0, 1.0, 3 / 35), (1.0, 5.0, 15 / 7)):
        score = torch.tensor([0.0, math.log(odds)], requires_grad=True)
        scores = score.view(1, 2, 1, 1, 1).expand(1, 2, 10, 1, 1)
        costly(scores, views, background=background, foreground=foreground).backward()
        assert score.grad is not None
        torch.testing.assert_close(score.grad, torch.zeros(2), atol=1e-6, rtol=0)


def test_the_main_head_alone_predicts() -> None:
    method = coranet().eval()
    image = torch.randn(1, 2, *PATCH)
    expected = method.networks[0](image)[:, :3].softmax(1)
    torch.testing.assert_close(method.probabilities(image), expected)
