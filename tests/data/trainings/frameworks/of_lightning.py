"""Trainings by Lightning: ``python of_lightning.py NAME``, a fault of `faults.py` or a healthy one of this file."""

import sys
import tempfile
import warnings
from pathlib import Path

import lightning
from hypergauge import track
from torch import nn, optim
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parents[1]))
import faults


class Model(lightning.LightningModule):
    def __init__(self, training):
        super().__init__()
        self.model, self.criterion, self.optimizer = training.model, training.criterion, training.optimizer

    def configure_optimizers(self):
        return self.optimizer

    def training_step(self, batch, number):
        inputs, labels = batch
        return self.criterion(self.model(inputs), labels)

    def validation_step(self, batch, number):
        inputs, labels = batch
        self.log("val_loss", self.criterion(self.model(inputs), labels))


class Hooks(lightning.Callback):
    """What a fault does before a step, and adds to a checkpoint."""

    def __init__(self, training):
        self.training = training

    def on_train_batch_start(self, trainer, module, batch, number):
        self.training.before_step(trainer.global_step)

    def on_save_checkpoint(self, trainer, module, checkpoint):
        checkpoint["more"] = self.training.checkpoint()


class Accumulated(faults.NoFault):
    options = {"accumulate_grad_batches": 3, "gradient_clip_val": 1.0}


class Normalized(faults.NoFault):
    rate = 3e-3

    def prepare(self):
        self.model = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 4))


class Adaptive(faults.NoFault):
    def __init__(self):
        super().__init__()
        self.optimizer = optim.AdamW(self.model.parameters(), 3e-3)


class Folds(faults.NoFault):
    """Three trainings of one process, each with its own model."""

    def __init__(self):
        self.parts = [faults.NoFault() for _ in range(3)]


def train(training):
    for part in getattr(training, "parts", [training]):
        fit(part)


def fit(training):
    with tempfile.TemporaryDirectory() as folder:
        fit_in(folder, training)


def fit_in(folder, training):
    data, held_out = training.data_sets()
    trainer = lightning.Trainer(
        max_epochs=training.epochs, default_root_dir=folder, accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0, **getattr(training, "options", {}),
        callbacks=[track.lightning(every=training.every, loss=training.criterion, quantiles=True), Hooks(training)],
    )  # fmt: skip
    trainer.fit(Model(training), DataLoader(data, training.batch, shuffle=True), DataLoader(held_out, 100))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    train({**vars(faults), **globals()}[sys.argv[1]]())
