"""Small PyTorch trainings, each with one fault: ``python faults.py NAME``. The loop is always the same."""

import math
import sys
import time

import torch
from hypergauge import track
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


def data(count=640, classes=4, features=20):
    x = torch.randn(count, features)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long() if classes == 4 else (x[:, 0] > 1.7).long()


def dense(activation=nn.ReLU, layers=2, width=32, classes=4, features=20):
    sizes = [features] + [width] * layers
    parts = [part for pair in zip(sizes, sizes[1:]) for part in (nn.Linear(*pair), activation())]
    return nn.Sequential(*parts, nn.Linear(width, classes))


class Slow(TensorDataset):
    """Data set that takes long to load."""

    def __getitem__(self, index):
        time.sleep(0.001)
        return super().__getitem__(index)


class NoFault:
    """Training without a fault; faults differ from it in one respect."""

    every, epochs, rate, batch = 5, 8, 1e-2, 20
    seconds = float("inf")
    data_set, held_out_share = TensorDataset, 0.25
    expected = None

    def __init__(self):
        self.x, self.y = data()
        self.model = dense()
        self.criterion = nn.CrossEntropyLoss()
        self.prepare()
        self.optimizer = torch.optim.SGD(self.model.parameters(), self.rate, momentum=0.9)

    def prepare(self):
        """Change what the fault needs."""

    def before_step(self, step):
        """Act before a step."""

    def data_sets(self):
        """Return the data of the training and of its evaluations."""
        held_out = int(len(self.x) * self.held_out_share)
        return self.data_set(self.x[held_out:], self.y[held_out:]), TensorDataset(self.x[:held_out], self.y[:held_out])

    def train(self):
        data, held_out = self.data_sets()
        loader, validation = DataLoader(data, self.batch, shuffle=True), DataLoader(held_out, 100)
        track.watch(self.model, loss=self.criterion, every=self.every, quantiles=True)
        step, began = 0, time.monotonic()
        for epoch in range(self.epochs):
            self.epoch = epoch
            if time.monotonic() - began > self.seconds:
                break
            self.model.train()
            for inputs, labels in loader:
                self.before_step(step)
                loss = self.criterion(self.model(inputs), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                step += 1
            self.model.eval()
            with torch.no_grad():
                for inputs, labels in validation:
                    self.criterion(self.model(inputs), labels)
            self.end_epoch()

    def end_epoch(self):
        """Act after the evaluation."""

    def checkpoint(self):
        """Return what a checkpoint has beside the weights."""


class VanishingGradient(NoFault):
    def prepare(self):
        self.model = dense(nn.Sigmoid, layers=14)


class ExplodingTensor(NoFault):
    def before_step(self, step):
        if step >= 100:
            for group in self.optimizer.param_groups:
                group["lr"] = 3e3


class NonFinite(NoFault):
    def before_step(self, step):
        if step == 60:
            with torch.no_grad():
                self.model[0].weight[0, 0] = math.nan


class LossNotDecreasing(NoFault):
    rate, epochs, every = 1e-7, 10, 2


class Overfit(NoFault):
    rate, epochs, held_out_share = 0.1, 40, 0.7

    def prepare(self):
        self.model = dense(width=128)
        noisy = torch.rand(len(self.y)) < 0.3
        self.y = torch.where(noisy, torch.randint(4, self.y.shape), self.y)


class Overtraining(Overfit):
    epochs = 60


class StalledTraining(NoFault):
    def before_step(self, step):
        if step == 50:
            time.sleep(25)


class AllZero(NoFault):
    def prepare(self):
        for parameter in self.model.parameters():
            nn.init.zeros_(parameter)


class DeadRelu(NoFault):
    def prepare(self):
        nn.init.constant_(self.model[2].bias, -100.0)


class SaturatedActivation(NoFault):
    def prepare(self):
        self.model = dense(nn.Tanh)
        with torch.no_grad():
            for layer in (self.model[0], self.model[2]):
                layer.weight *= 1000


class PoorWeightInitialization(NoFault):
    rate, every = 1e-3, 2

    def prepare(self):
        self.model = dense(layers=6)
        with torch.no_grad():
            for layer in self.model:
                if isinstance(layer, nn.Linear):
                    layer.weight *= 0.1
                    layer.bias.zero_()


class TensorVariance(NoFault):
    rate = 1e-7

    def prepare(self):
        with torch.no_grad():
            self.model[0].weight *= 100


class UnchangedTensor(NoFault):
    def before_step(self, step):
        if step == 0:
            self.optimizer.param_groups[0]["params"] = [
                one for one in self.model.parameters() if one is not self.model[2].weight
            ]


class WeightUpdateRatio(NoFault):
    def before_step(self, step):
        with torch.no_grad():
            self.model[0].weight *= 1e-4


class ClassImbalance(NoFault):
    epochs = 20

    def prepare(self):
        self.model = dense(classes=2)
        self.y = (torch.rand(len(self.x)) < 0.03).long()  # rare, and unpredictable


class SimilarAcrossRuns(NoFault):
    epochs = 6


class DataBoundStep(NoFault):
    data_set, epochs = Slow, 16


class LargeRate(NoFault):
    """The explosion is in the first steps, so there is no usual norm before it."""

    rate, epochs = 100.0, 20


class AllAlike(NoFault):
    rate, every, epochs = 1e-2, 2, 6

    def prepare(self):
        for parameter in self.model.parameters():
            nn.init.zeros_(parameter)


class LeftOut(UnchangedTensor):
    """Few steps are watched."""

    every, epochs = 100, 30


class RandomLabels(NoFault):
    epochs = 16

    def prepare(self):
        self.y = torch.randint(4, self.y.shape)
        self.model = dense(layers=1, width=4)


class TinyRate(NoFault):
    rate, epochs, every = 1e-9, 16, 2


class Hanging(NoFault):
    def before_step(self, step):
        if step == 50:
            time.sleep(40)


class CheckpointStall(NoFault):
    def end_epoch(self):
        torch.save(self.checkpoint(), "/dev/null")

    def checkpoint(self):
        return _Slow()


class PowerWithoutProgress(NoFault):
    rate, epochs, seconds = 1e-9, 10_000, 25


class IdleInEvaluation(NoFault):
    epochs, seconds = 10_000, 40

    def prepare(self):
        self.criterion = _SlowInEvaluation(self)


class _SlowInEvaluation(nn.CrossEntropyLoss):
    """Loss that is computed elsewhere in every 240th evaluation, for six seconds: the first second still has samples of before."""

    def __init__(self, training):
        super().__init__()
        object.__setattr__(self, "of", training)

    def forward(self, outputs, labels):
        if not self.of.model.training and self.of.epoch % 240 == 0:
            time.sleep(3)
        return super().forward(outputs, labels)


class _Slow:
    """Checkpoint on a slow disk."""

    def __reduce__(self):
        time.sleep(2)
        return dict, ()


if __name__ == "__main__":
    globals()[sys.argv[1]]().train()
