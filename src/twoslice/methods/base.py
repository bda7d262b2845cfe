"""What every method is: its networks, the labels it asks for, and its losses on a batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from twoslice.abreast import abreast
from twoslice.networks.build import NetworkPlan, build_network
from twoslice.settings import Settings

LabelSource = Literal["drawn", "planes", "fused", "volumes"]
"""`drawn`: the annotated slices alone. `planes`: the label view of each plane that was drawn.
`fused`: the view that joins them, then those of the planes. `volumes`: label files that say
everything about their scan.
"""
_SOURCES: dict[str, LabelSource] = {"sparse": "drawn", "dense": "planes", "full": "volumes"}


class View(NamedTuple):
    """One label view of the labelled patches: labels, and distances that become weights."""

    label: Int[Tensor, "B I J K"]
    distance: Int[Tensor, "B I J K"]


class Batch(NamedTuple):
    """Labelled and unlabelled patches, and the labelled ones' views in the order of the planes."""

    labeled: Float[Tensor, "L C I J K"]
    unlabeled: Float[Tensor, "U C I J K"]
    views: tuple[View, ...]
    cases: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """How many patches are labelled, how many are not."""
        return self.labeled.shape[0], self.unlabeled.shape[0]

    @property
    def images(self) -> Float[Tensor, "B C I J K"]:
        """All patches, the labelled ones first."""
        if not self.unlabeled.shape[0]:
            return self.labeled
        joined = torch.cat([self.labeled, self.unlabeled])
        return joined.contiguous(memory_format=torch.channels_last_3d)


class Losses:
    """Named terms that add up to the loss, and figures that are only logged."""

    def __init__(self) -> None:
        self.terms: dict[str, Tensor] = {}
        self.parts: dict[int, Tensor] = {}
        self.figures: dict[str, float] = {}

    def add(self, network: int = 0, /, **terms: Tensor) -> None:
        """Add to the named terms; the same name from several networks sums up. Terms of networks
        with different numbers have no gradient in common.
        """
        for name, value in terms.items():
            self.terms[name] = self.terms[name] + value if name in self.terms else value
            part = self.parts.get(network)
            self.parts[network] = value if part is None else part + value

    def log(self, **figures: float) -> None:
        """Figures for the curves; they take no part in the loss."""
        self.figures.update(figures)

    @property
    def total(self) -> Tensor:
        """The sum of all terms."""
        return torch.stack(list(self.terms.values())).sum()

    def backward(self, follow: Callable[[Tensor], object] = Tensor.backward) -> None:
        """The gradient of the total, the networks side by side; `follow` takes it from a part."""
        parts = [*self.parts.values()]
        abreast([partial(follow, part) for part in parts], parts[0].device)


class Method(nn.Module):
    """Networks and one loss. Subclasses set `trained` and write `losses`.

    Args:
        plan: the network that is built, once for each trained network.
        settings: all settings of the run; a method reads its own section.
    """

    trained: ClassVar[int] = 1
    """How many networks an optimizer moves."""
    patches: ClassVar[tuple[int, int]] = (1, 1)
    """How many patches of a batch are labelled, and how many are not, unless settings say so."""
    room: ClassVar[float] = 1.0
    """Voxels of a patch, as a multiple of what the planner usually takes on a CPU."""
    share: ClassVar[float] = 1.0
    """Of a scan's sides that a patch shows, where scans are made coarser for it."""
    length: ClassVar[float] = 1.0
    """Iterations, as a multiple of the recipe's on a CPU."""
    least: ClassVar[float] = 1.0
    """Of that length, what scans that are much smaller than its largest patches get."""
    optimizer: ClassVar[Literal["adamw", "muon"] | None] = None
    """What it trains with in the modern recipe; None: what the recipe has."""
    thins: ClassVar[bool] = False
    """Whether labels that the drawn slices show in one piece are handed out in one."""

    def __init__(self, plan: NetworkPlan, settings: Settings) -> None:
        super().__init__()
        self.classes = plan.classes
        self.settings = settings
        self.networks = nn.ModuleList(build_network(each) for each in self.plans(plan))

    @classmethod
    def plans(cls, plan: NetworkPlan) -> list[NetworkPlan]:
        """What each trained network is built from; all alike, unless a method says otherwise."""
        return [plan] * cls.trained

    @property
    def levels(self) -> bool:
        """Whether its scores are moved at the end until areas are those drawn."""
        return False

    @property
    def predicting(self) -> list[nn.Module]:
        """The networks whose mean is the prediction."""
        return list(self.networks)

    @classmethod
    def label_source(cls, settings: Settings) -> LabelSource:
        """Which labels the batches must carry."""
        return _SOURCES[settings.training.setting]

    @classmethod
    def planes_needed(cls, settings: Settings) -> int:
        """In how many planes every labelled scan must have been drawn."""
        return 1

    @classmethod
    def learns_from_unlabeled(cls, settings: Settings) -> bool:
        """Whether batches need unlabelled patches."""
        return True

    @classmethod
    def batch_sizes(cls, settings: Settings) -> tuple[int, int]:
        """How many patches of a batch are labelled, and how many are not."""
        labeled, unlabeled = cls.patches
        asked = settings.training
        if asked.labeled_per_batch is not None:
            labeled = asked.labeled_per_batch
        if asked.unlabeled_per_batch is not None:
            unlabeled = asked.unlabeled_per_batch
        return labeled, unlabeled if cls.learns_from_unlabeled(settings) else 0

    @classmethod
    def patches_each(cls, settings: Settings) -> int:
        """How many patches of a batch a network sees; all of them, unless networks share them."""
        return sum(cls.batch_sizes(settings))

    @abstractmethod
    def losses(self, batch: Batch, progress: float) -> Losses:
        """The losses of one batch, when `progress` (0 to 1) of the training is done."""

    def forward(self, batch: Batch, progress: float) -> Losses:
        """`losses`, under the name through which Fabric adds precision and devices."""
        return self.losses(batch, progress)

    def after_step(self, progress: float) -> None:
        """Called when the optimizer has stepped: for teachers that follow by averaging."""

    def member_probabilities(
        self, image: Float[Tensor, "B C I J K"]
    ) -> Float[Tensor, "N B C2 I J K"]:
        """Each predicting network's softmax, for predictions and for where they disagree; outputs
        beyond the classes are for training only.
        """
        scores = [network(image)[:, : self.classes] for network in self.predicting]
        return torch.stack([each.softmax(dim=1) for each in scores])

    def probabilities(self, image: Float[Tensor, "B C I J K"]) -> Float[Tensor, "B C2 I J K"]:
        """The mean of the predicting networks' softmax: the prediction."""
        return self.member_probabilities(image).mean(dim=0)


def view_of(batch: Batch, index: int) -> View:
    """The view of network `index`; where fewer views came (one plane, drawn slices), the last."""
    views: Sequence[View] = batch.views
    return views[min(index, len(views) - 1)]
