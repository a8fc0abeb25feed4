"""Trainings by Keras: ``python of_keras.py NAME``, one with a fault or a healthy one."""

import math
import os
import sys
import time

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from hypergauge import track
from keras import layers

torch.set_num_threads(1)
keras.utils.set_random_seed(0)
X = np.random.default_rng(0).normal(size=(640, 20)).astype("float32")
Y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)


def dense(activation="relu", depth=2, width=32, initializer="glorot_uniform"):
    hidden = [layers.Dense(width, activation=activation, kernel_initializer=initializer) for _ in range(depth)]
    return keras.Sequential([keras.Input((20,)), *hidden, layers.Dense(4, kernel_initializer=initializer)])


class NoFault(keras.callbacks.Callback):
    """Training without a fault; the others differ from it in one respect."""

    every, epochs, rate, held_out_share = 5, 8, 1e-2, 0.25
    callbacks = ()

    def __init__(self):
        super().__init__()
        self.x, self.y, self.network = X, Y, dense()
        self.prepare()

    def prepare(self):
        """Change what the fault needs."""

    def optimizer(self):
        return keras.optimizers.SGD(self.rate, momentum=0.9)

    def batches(self, x, y):
        """Return the data of the training as `fit` takes it."""
        return {"x": x, "y": y, "batch_size": 20}

    def train(self):
        held_out = int(len(self.x) * self.held_out_share)
        self.network.compile(self.optimizer(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        self.network.fit(
            **self.batches(self.x[held_out:], self.y[held_out:]), epochs=self.epochs, verbose=0,
            validation_data=(self.x[:held_out], self.y[:held_out]),
            callbacks=[track.keras(every=self.every), self, *self.callbacks],
        )  # fmt: skip


class VanishingGradient(NoFault):
    def prepare(self):
        self.network = dense("sigmoid", depth=14)


class ExplodingTensor(NoFault):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 4:
            self.network.optimizer.learning_rate = 3e3


class NonFinite(NoFault):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 3:
            kernel = self.network.layers[0].kernel.numpy()
            kernel[0, 0] = math.nan
            self.network.layers[0].kernel.assign(kernel)


class LossNotDecreasing(NoFault):
    rate, epochs, every = 1e-7, 10, 2


class Overfit(NoFault):
    rate, epochs, held_out_share = 0.1, 40, 0.7

    def prepare(self):
        self.network = dense(width=128)
        random = np.random.default_rng(1)
        self.y = np.where(random.random(640) < 0.3, random.integers(4, size=640), self.y)


class Overtraining(Overfit):
    epochs = 60


class StalledTraining(NoFault):
    def on_train_batch_begin(self, batch, logs=None):
        if self.network.optimizer.iterations == 50:
            time.sleep(25)


class AllZero(NoFault):
    def prepare(self):
        self.network = dense(initializer="zeros")


class PoorWeightInitialization(NoFault):
    rate, every = 1e-3, 2

    def prepare(self):
        self.network = dense(depth=6)
        for number, layer in enumerate(self.network.layers):
            layer.kernel.assign(layer.kernel * 10.0 ** -(number % 2 + 1))


class TensorVariance(NoFault):
    rate = 1e-7

    def prepare(self):
        self.network.layers[0].kernel.assign(self.network.layers[0].kernel * 100)


class UnchangedTensor(NoFault):
    """The last layer's learning rate is zero: the optimizer gets its gradient, and leaves it."""

    def optimizer(self):
        kernel = self.network.layers[1].kernel

        class Forgetful(keras.optimizers.SGD):
            def update_step(self, gradient, variable, learning_rate):
                if variable is not kernel:
                    super().update_step(gradient, variable, learning_rate)

        return Forgetful(self.rate)


class SimilarAcrossRuns(NoFault):
    epochs = 6


class DataBoundStep(NoFault):
    epochs = 16

    def batches(self, x, y):
        class Slow(keras.utils.PyDataset):
            def __len__(self):
                return len(x) // 20

            def __getitem__(self, index):
                time.sleep(0.02)
                return x[20 * index : 20 * index + 20], y[20 * index : 20 * index + 20]

        return {"x": Slow()}


class Slow(layers.Dense):
    """Layer whose weights are slow to write."""

    def save_own_variables(self, store):
        time.sleep(2)
        super().save_own_variables(store)


class CheckpointStall(NoFault):
    callbacks = (keras.callbacks.ModelCheckpoint(f"{os.getpid()}.keras"),)

    def prepare(self):
        self.network = keras.Sequential([keras.Input((20,)), Slow(32, activation="relu"), layers.Dense(4)])


class Saved(NoFault):
    callbacks = (keras.callbacks.ModelCheckpoint(f"{os.getpid()}.keras"),)


class Convolutional(NoFault):
    def prepare(self):
        self.network = keras.Sequential([
            keras.Input((20,)), layers.Reshape((20, 1)), layers.Conv1D(8, 3), layers.BatchNormalization(),
            layers.ReLU(), layers.Dropout(0.1), layers.Flatten(), layers.Dense(4),
        ])  # fmt: skip


class Recurrent(NoFault):
    def prepare(self):
        self.network = keras.Sequential([keras.Input((20,)), layers.Reshape((10, 2)), layers.LSTM(16), layers.Dense(4)])

    def optimizer(self):
        return keras.optimizers.Adam(1e-2)


class Folds(NoFault):
    """Three trainings of one process, each with its own model and data."""

    def train(self):
        for fold in range(3):
            part = NoFault()
            part.x, part.y = np.roll(X, 200 * fold, axis=0), np.roll(Y, 200 * fold)
            part.train()


if __name__ == "__main__":
    globals()[sys.argv[1]]().train()
