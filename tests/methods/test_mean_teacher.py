"""Mean Teacher: the teacher is the exponential mean of the student, and never learns itself."""

from __future__ import annotations

import copy

import pytest
import torch

from methods.toys import batch, build
from twoslice.methods.base import Method
from twoslice.methods.mean_teacher import MeanTeacher
from twoslice.methods.ua_mt import UncertaintyAwareMeanTeacher

WITH_TEACHER = ["mean_teacher", "ua_mt", "coranet", "plus"]


def teacher_of(method: Method) -> torch.nn.Module:
    """The teacher, or the first of two: that of the first network."""
    found = method.teachers[0] if hasattr(method, "teachers") else method.teacher  # type: ignore[index]
    assert isinstance(found, torch.nn.Module)
    return found


def step(method: Method, amount: float) -> None:
    """What an optimizer might do."""
    with torch.no_grad():
        for parameter in method.networks.parameters():
            parameter += amount * torch.randn_like(parameter)
    method.after_step(0.0)


@pytest.mark.parametrize("name", WITH_TEACHER)
def test_the_teacher_is_the_exponential_mean_of_the_student(name: str) -> None:
    """At first the plain mean of the students so far, then 0.9 of the old and 0.1 of the new."""
    method = build(name, **{section: {"teacher_decay": 0.9} for section in ("semi", "plus")})
    students = []
    for _ in range(14):
        step(method, 0.1)
        students.append(torch.cat([p.flatten() for p in method.networks[0].parameters()]).clone())
    expected = torch.stack(students[:10]).mean(dim=0)
    for student in students[10:]:
        expected = 0.9 * expected + 0.1 * student
    found = torch.cat([p.flatten() for p in teacher_of(method).parameters()])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", WITH_TEACHER)
def test_the_teacher_gets_no_gradient_and_no_optimizer(name: str) -> None:
    method = build(name)
    method.losses(batch(), 0.9).total.backward()
    teaching = list(teacher_of(method).parameters())
    assert all(p.grad is None and not p.requires_grad for p in teaching)
    trained = {id(p) for p in method.networks.parameters()}
    assert not trained & {id(p) for p in teaching}


def test_only_unlabelled_patches_feel_the_teacher() -> None:
    method = build("mean_teacher")
    given = batch()
    torch.manual_seed(0)
    one = method.losses(given, 1.0)
    with torch.no_grad():
        for parameter in method.teacher.parameters():  # type: ignore[union-attr]
            parameter.normal_()
    torch.manual_seed(0)
    two = method.losses(given, 1.0)
    assert torch.equal(one.terms["supervised"], two.terms["supervised"])
    assert not torch.equal(one.terms["consistency"], two.terms["consistency"])


def test_a_student_drawn_to_its_teacher_alone_comes_to_agree() -> None:
    """A toy: no labels, a still teacher that is another network; the distance falls."""
    method = build("mean_teacher", semi={"weight": 1.0})
    assert isinstance(method, MeanTeacher)
    torch.manual_seed(9)
    for parameter in method.teacher.parameters():
        parameter.data.normal_(std=0.3)
    given = batch()
    optimizer = torch.optim.Adam(method.networks.parameters(), lr=0.01)
    distances = []
    for _ in range(30):
        optimizer.zero_grad()
        distance = method.losses(given, 1.0).terms["consistency"]
        distance.backward()
        optimizer.step()
        distances.append(float(distance.detach()))
    assert distances[-1] < 0.3 * distances[0]


def test_ua_mt_hears_its_teacher_only_where_that_one_is_certain() -> None:
    """A teacher that is sure of half the patch (by the image's sign): the other half is left out
    until the threshold has risen over it.
    """
    method = build("ua_mt", classes=2)
    assert isinstance(method, UncertaintyAwareMeanTeacher)

    class Sure(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            sure = torch.where(image[:, :1] > 0, 9.0, 0.3)
            return torch.cat([sure, torch.zeros_like(sure)], dim=1)

    method.teacher.network = Sure()
    image = torch.where(torch.rand(1, 2, 6, 6, 6) > 0.5, 5.0, -5.0)
    certain = method.certain(image, 0.0)
    assert torch.equal(certain, image[:, 0] > 0)
    assert method.certain(image, 1.0).all()


def test_the_state_dict_holds_the_teacher_and_its_count() -> None:
    method = build("mean_teacher")
    for _ in range(3):
        step(method, 0.1)
    other = build("mean_teacher")
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    torch.manual_seed(1)
    step(method, 0.1)
    torch.manual_seed(1)
    step(other, 0.1)
    one, two = method.state_dict(), other.state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
