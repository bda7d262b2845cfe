"""The training loop, the same for every method. Read it from top to bottom."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import torch
from lightning_fabric import Fabric

from twoslice.allocator import keep_freed_memory
from twoslice.annotation.pieces import single_labels
from twoslice.annotation.reading import read_annotation
from twoslice.errors import SettingsError, TrainingError
from twoslice.io.dataset import Dataset
from twoslice.methods.base import Losses, Method
from twoslice.methods.registry import find_method
from twoslice.networks.synced import synchronise
from twoslice.progress import Progress, Silent
from twoslice.settings import Settings, find_difference, load_settings
from twoslice.training.ahead import Ahead
from twoslice.training.averaging import Averaged
from twoslice.training.checkpoints import (
    Checkpoint,
    clear_leftovers,
    damaged,
    load_checkpoint,
    save_checkpoint,
)
from twoslice.training.devices import (
    make_fabric,
    seed_everything,
    start_fabric,
    sum_of_all,
    to_device,
)
from twoslice.training.interrupt import Interrupt
from twoslice.training.journal import PICTURES, Journal
from twoslice.training.levels import drawn_scans, level
from twoslice.training.memory import memory_told, refuse_too_large
from twoslice.training.pictures import Pictures
from twoslice.training.planner import make_plan
from twoslice.training.recipes import Recipe, find_recipe, make_optimizer
from twoslice.training.run import Run
from twoslice.training.sinks import open_mlflow, open_sinks
from twoslice.training.sources import open_source

LOG_EVERY = 10


def train(
    dataset: Dataset,
    out: Path,
    settings: Settings | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Train one method on a dataset into the run folder `out`; with `resume`, go on from its last
    checkpoint under the settings saved there, which any given `settings` must equal. Without
    `settings`, a new run takes the defaults.
    """
    progress = progress or Silent()
    begun = resume and (out / "settings.yaml").is_file()
    if begun:
        run = Run.open(out)
        _refuse_other_data(run, dataset)
        _refuse_other_settings(run, settings)
        fabric = start_fabric(run.settings.training)
    else:
        settings = settings or load_settings()
        fabric = start_fabric(settings.training)
        plan = make_plan(dataset, settings, gpu=fabric.device.type != "cpu")
        run = Run.create(out, settings, plan, dataset, single=_single(dataset, settings))
        if resume:
            progress.say(f"{out}: no run is there to go on with, so a new one begins.")
    refuse_too_large(run.plan, find_method(run.settings.method), run.settings, fabric.device)
    if run.settings.training.mlflow is not None:
        open_mlflow(run.settings.training.mlflow)
    fabric.launch()  # several devices: from here on a process each, all of which came this far
    if not fabric.is_global_zero:
        progress = Silent()
    trainer = Trainer(run, dataset, progress, fabric)  # reads and refuses; nothing is written yet
    if fabric.is_global_zero and not begun:
        run.save()
    progress.say(run.plan.why)
    trainer.fit()
    if not fabric.is_global_zero:
        raise SystemExit(0)  # what comes after the training is for one process to do
    return run


def _single(dataset: Dataset, settings: Settings) -> tuple[int, ...]:
    """The labels that are one piece, if the method wants to know."""
    method = find_method(settings.method)
    if not method.thins or method.label_source(settings) == "volumes":
        return ()
    drawn = (read_annotation(dataset, case) for case in dataset.labeled)
    return single_labels(drawn, dataset.classes)


class Trainer:
    """One training under way: the method, its optimizer, its averaged copy, and how far it is."""

    def __init__(
        self, run: Run, dataset: Dataset, progress: Progress, fabric: Fabric | None = None
    ) -> None:
        self.run, self.dataset, self.progress = run, dataset, progress
        self.settings = run.settings.training
        self.recipe: Recipe = find_recipe(self.settings.recipe)
        self.fabric = fabric or make_fabric(self.settings)
        if self.fabric.device.type == "cpu":
            keep_freed_memory()
        kind = find_method(run.settings.method)
        with self.fabric.rank_zero_first():  # which prepares the scans, and the others find them
            source = open_source(
                dataset, run.plan, run.settings, kind, folder=run.folder, progress=progress
            )
        self.source = replace(source, rank=self.fabric.global_rank, world=self.fabric.world_size)
        self.ahead = Ahead(self.source)
        seed_everything(self.settings.seed, step=0)
        self.method: Method = kind(run.plan.network, run.settings)
        self.method.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
        if self.settings.sync_batch_norm and self.fabric.world_size > 1:
            synchronise(self.method)
        self.rate = self.settings.learning_rate or self.recipe.learning_rate
        groups = [{"params": [*network.parameters()]} for network in self.method.networks]
        optimizer = make_optimizer(groups, self.rate, self.settings, self.recipe, kind)
        self.model, self.optimizer = self.fabric.setup(self.method, optimizer)
        self.averaged = (
            Averaged(self.method, self.recipe.averaging) if self.recipe.averaging else None
        )
        self.pictures = Pictures(self.source) if self.settings.pictures else None
        self.step, self.seconds = 0, 0.0
        self.notes: dict[str, list[float]] = {}
        self._restore()

    def fit(self) -> None:
        """Step until the end, or until somebody asks to stop."""
        began, total = time.monotonic(), self._total()
        with (
            self._open_journal() as journal,
            Interrupt() as interrupt,
            self.progress.task("training", total, done=self._done()) as task,
        ):
            while self.share() < 1.0:
                before = self._done()
                losses = self.train_step()
                self.step += 1
                self.seconds = self.seconds + time.monotonic() - began
                began = time.monotonic()
                asked = self._agree(interrupt.asked)
                self._note(journal, losses)
                last = self.share() >= 1.0
                if last and self.method.levels and self.fabric.is_global_zero:
                    self._level()
                if last or asked or self.step % self.settings.checkpoint_every == 0:
                    self.save(journal)
                task.advance(min(self._done(), total) - before, note=_describe(losses))
                if asked and not last:
                    self.progress.say(self._how_to_resume())
                    raise KeyboardInterrupt

    def share(self) -> float:
        """How much of the training is done, from 0 to 1: by iterations, or by the clock."""
        if self.settings.minutes is not None:
            return self.seconds / (60.0 * self.settings.minutes)
        return self.step / self.run.plan.iterations

    def train_step(self) -> Losses:
        """One batch, one step of every network."""
        share = self.share()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * self.recipe.rate(share)
        batch = to_device(self.ahead.batch(self.step), self.fabric.device)
        seed_everything(self.settings.seed, step=self.step + 1, rank=self.fabric.global_rank)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        with memory_told(self.run.plan, type(self.method), self.run.settings):
            losses: Losses = self.model(batch, share)
            self._refuse_nan(losses)
            if self.fabric.world_size > 1:  # gradients are exchanged once they are all there
                self.fabric.backward(losses.total)
            else:
                losses.backward(self.fabric.backward)
        if self.recipe.clip is not None:
            self.fabric.clip_gradients(self.model, self.optimizer, max_norm=self.recipe.clip)
        self.optimizer.step()
        self.method.after_step(share)
        if self.averaged is not None:
            self.averaged.follow(self.method, self.step)
        return losses

    def _level(self) -> None:
        """Areas as drawn, before the last checkpoint; nothing is trained after it."""
        module = self.method if self.averaged is None else self.averaged.module
        assert isinstance(module, Method)
        scans = drawn_scans(self.dataset, self.source, self.fabric.device)
        shifts = level(module.eval(), self.run.plan, scans)
        told = ", ".join(
            f"{name} {shift:+.2f}"
            for name, shift in zip(self.run.data.class_names[1:], shifts[1:], strict=True)
        )
        self.progress.say(f"Scores moved to the areas that were drawn (log odds): {told}.")

    def save(self, journal: Journal) -> None:
        """Write a checkpoint, and the figures and a picture up to it: one process does."""
        if not self.fabric.is_global_zero:
            return
        if self.pictures is not None:
            journal.show(self.step, self.pictures.draw(self.method))
        journal.flush()
        save_checkpoint(
            self.run.checkpoints,
            Checkpoint(
                step=self.step,
                weights=self.method.state_dict(),
                averaged=self.averaged.module.state_dict() if self.averaged else None,
                optimizer=self.optimizer.state_dict(),
                meta={
                    "method": self.run.settings.method,
                    "iterations": self.run.plan.iterations,
                    "progress": min(1.0, self.share()),
                    "seconds": self.seconds,
                    "notes": journal.notes,
                },
            ),
        )

    def _restore(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        if self.fabric.is_global_zero:
            for folder in (self.run.folder, self.run.folder / PICTURES, self.run.checkpoints):
                clear_leftovers(folder)
        if not self.run.has_checkpoint:
            return
        checkpoint = load_checkpoint(self.run.latest)
        try:
            self.method.load_state_dict(checkpoint.weights)
            self.optimizer.load_state_dict(dict(checkpoint.optimizer))
            if self.averaged is not None and checkpoint.averaged is not None:
                self.averaged.module.load_state_dict(checkpoint.averaged)
        except (RuntimeError, ValueError, KeyError) as error:
            raise damaged(self.run.latest, "", str(error).splitlines()[0]) from None
        self.step = checkpoint.step
        self.seconds, self.notes = checkpoint.meta["seconds"], checkpoint.meta["notes"]

    def _open_journal(self) -> Journal:
        if not self.fabric.is_global_zero:
            return Journal(None, start=self.step)
        sinks = open_sinks(
            self.run.folder, self.run.settings, start=self.step, progress=self.progress
        )
        return Journal(self.run.folder, start=self.step, notes=self.notes, sinks=sinks)

    def _agree(self, asked: bool) -> bool:
        """Processes end together: the first one's clock counts, and whoever is asked to stop."""
        if self.fabric.world_size == 1:
            return asked
        clock = self.seconds if self.fabric.is_global_zero else 0.0
        mine = torch.tensor([clock, float(asked)], device=self.fabric.device)
        summed = sum_of_all(self.fabric, mine).tolist()
        self.seconds = summed[0]
        return bool(summed[1])

    def _note(self, journal: Journal, losses: Losses) -> None:
        terms = {name: float(value.detach()) for name, value in losses.terms.items()}
        journal.note(loss=float(losses.total.detach()), **terms, **losses.figures)
        if self.step % LOG_EVERY == 0 or self.share() >= 1.0:
            rate = self.optimizer.param_groups[0]["lr"]
            journal.log(self.step, learning_rate=rate, seconds=self.seconds)

    def _refuse_nan(self, losses: Losses) -> None:
        """Stop at once: a step with such a loss would spoil every weight."""
        if math.isfinite(float(sum_of_all(self.fabric, losses.total))):
            return
        bad = [name for name, value in losses.terms.items() if not value.isfinite()]
        cases = self.source.all_cases(self.step)
        good = f"{self.run.latest}" if self.run.has_checkpoint else "none was written yet"
        raise TrainingError(
            f"{self.run.folder}: the loss ({', '.join(bad)}) is not a number at step {self.step}, "
            f"with cases {', '.join(cases)}. Last good checkpoint: {good}. Look at these "
            f"scans with 'twoslice check', or lower training.learning_rate (now {self.rate:g})."
        )

    def _total(self) -> int:
        if self.settings.minutes is not None:
            return max(1, round(60 * self.settings.minutes))
        return self.run.plan.iterations

    def _done(self) -> int:
        """How far the progress bar is: seconds by the clock, iterations otherwise."""
        return int(self.seconds) if self.settings.minutes is not None else self.step

    def _how_to_resume(self) -> str:
        return (
            f"Stopped at step {self.step}, saved in {self.run.folder}. Go on with: "
            f"twoslice train {self.run.data.root} --out {self.run.folder} --resume"
        )


def _describe(losses: Losses) -> str:
    parts = [f"loss {float(losses.total.detach()):.3f}"]
    dice = losses.figures.get("dice_drawn")
    if dice is not None and not math.isnan(dice):
        parts.append(f"Dice on drawn voxels {100 * dice:.0f}")
    return ", ".join(parts)


def _refuse_other_data(run: Run, dataset: Dataset) -> None:
    if dict(dataset.labels) != dict(run.data.labels):
        raise SettingsError(
            f"{run.folder}: was trained with labels {dict(run.data.labels)}, but {dataset.root} "
            f"has {dict(dataset.labels)}. Resume with the run's own dataset, {run.data.root}."
        )


def _refuse_other_settings(run: Run, asked: Settings | None) -> None:
    """A run goes on as it began: half a training under other settings is neither the one nor the
    other.
    """
    found = find_difference(run.settings, asked) if asked is not None else None
    if found is not None:
        name, saved, wanted = found
        raise SettingsError(
            f"{run.folder}: {name} is {saved} in the run, {wanted} was asked for. Resume without "
            f"--set, --settings, --preset and --method, or name another --out."
        )
