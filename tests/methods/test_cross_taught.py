"""CPS and CTBCT: hard labels of the peer, which carry no gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from methods.toys import batch, build
from twoslice.methods.base import Batch, View
from twoslice.networks.unetr import Unetr
from twoslice.objectives.weights import NEVER


def unlabelled(given: Batch) -> Batch:
    """The same patches with nothing known of them."""
    blank = [View(v.label, torch.full_like(v.distance, NEVER)) for v in given.views]
    return given._replace(views=tuple(blank))


def frozen_scores(method: torch.nn.Module, given: Batch) -> list[torch.Tensor]:
    with torch.no_grad():
        return [network(given.images) for network in method.networks]  # type: ignore[union-attr]


def test_cps_is_cross_entropy_to_the_peers_hard_labels_on_every_patch() -> None:
    method, given = build("cps", semi={"weight": 0.7}), batch()
    one, two = frozen_scores(method, given)
    expected = 0.7 * (F.cross_entropy(one, two.argmax(1)) + F.cross_entropy(two, one.argmax(1)))
    found = method.losses(given, 1.0).terms["cross"]
    torch.testing.assert_close(found.detach(), expected)


def test_ctbct_is_dice_to_the_peers_hard_labels_on_unlabelled_patches_alone() -> None:
    method, given = build("ctbct", semi={"weight": 0.7}), batch()
    scores = [each[1:] for each in frozen_scores(method, given)]

    def dice(own: torch.Tensor, peer: torch.Tensor) -> torch.Tensor:
        y = F.one_hot(peer.argmax(1), 3).movedim(-1, 1).float()
        p = own.softmax(1)
        axes = (0, 2, 3, 4)
        return 1 - (2 * (p * y).sum(axes) / (p**2 + y).sum(axes))[1:].mean()

    expected = 0.7 * (dice(*scores) + dice(*scores[::-1]))
    found = method.losses(given, 1.0).terms["cross"]
    torch.testing.assert_close(found.detach(), expected)


@pytest.mark.parametrize("name", ["cps", "ctbct"])
def test_a_target_carries_no_gradient_to_the_network_that_gave_it(name: str) -> None:
    """With the second network's own scores cut off, nothing reaches it: not through its labels."""
    method, given = build(name), unlabelled(batch())
    second = method.networks[1]
    hook = second.register_forward_hook(lambda module, inputs, out: out.detach())
    method.losses(given, 1.0).total.backward()
    hook.remove()
    assert all(p.grad is None for p in second.parameters())
    assert any(p.grad is not None for p in method.networks[0].parameters())


def test_cps_networks_begin_differently() -> None:
    one, two = (torch.cat([p.flatten() for p in n.parameters()]) for n in build("cps").networks)
    assert one.shape == two.shape
    assert not torch.equal(one, two)


def test_ctbct_teaches_a_transformer_by_the_networks_labels_and_predicts_without_it() -> None:
    method, given = build("ctbct"), unlabelled(batch())
    network, transformer = method.networks
    assert isinstance(transformer, Unetr)
    before = method.losses(given, 1.0).total
    with torch.no_grad():  # another unlabelled target: only through the network's labels
        for parameter in network.parameters():
            parameter.copy_(-parameter)
    after = method.losses(given, 1.0).total
    assert not torch.equal(before, after)
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.normal_()
    image = given.unlabeled
    method.eval()
    expected = network(image).softmax(dim=1)
    torch.testing.assert_close(method.probabilities(image), expected)
    assert method.member_probabilities(image).shape[0] == 1


def test_two_networks_that_teach_each_other_come_to_agree() -> None:
    method, given = build("cps", semi={"weight": 1.0}), unlabelled(batch())

    def apart() -> float:
        one, two = frozen_scores(method, given)
        return float((one.argmax(1) != two.argmax(1)).float().mean())

    optimizer = torch.optim.Adam(method.parameters(), lr=0.01)
    first = apart()
    for _ in range(30):
        optimizer.zero_grad()
        method.losses(given, 1.0).total.backward()
        optimizer.step()
    assert apart() < 0.5 * first
