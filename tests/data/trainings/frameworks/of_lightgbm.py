"""Trainings by LightGBM: ``python of_lightgbm.py NAME``, one with a fault or a healthy one."""

import sys
import time

import lightgbm
import numpy as np
from hypergauge import track

random = np.random.default_rng(0)
X = random.normal(size=(800, 8))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(float)


class NoFault:
    """Training without a fault; the others differ from it in one respect."""

    every, rounds, callbacks = 2, 80, ()
    params = {"objective": "binary", "max_depth": 3, "learning_rate": 0.1, "num_threads": 1, "verbose": -1}
    more = {}

    def __init__(self):
        self.x, self.y = X, Y

    def train(self):
        data, other = (lightgbm.Dataset(self.x[part], self.y[part]) for part in (slice(400), slice(400, None)))
        lightgbm.train(
            {**self.params, **self.more}, data, self.rounds, valid_sets=[data, other], valid_names=["train", "validation"],
            callbacks=[track.lightgbm(every=self.every), *self.callbacks],
        )  # fmt: skip


class LossNotDecreasing(NoFault):
    more = {"learning_rate": 1e-9}


class NonFinite(NoFault):
    more = {"objective": "regression", "learning_rate": 1e15}


class Overfit(NoFault):
    rounds, more = 150, {"max_depth": 8, "learning_rate": 0.5, "min_data_in_leaf": 1}

    def __init__(self):
        self.x, self.y = X, np.where(random.random(800) < 0.3, random.integers(2, size=800), Y)


class Overtraining(Overfit):
    """The same: the validation loss rises for long."""


def pause(env):
    if env.iteration == 40:
        time.sleep(25)


class StalledTraining(NoFault):
    callbacks = (pause,)


class SimilarAcrossRuns(NoFault):
    rounds = 60


class Regression(NoFault):
    more = {"objective": "regression", "metric": ["l2", "l1"], "learning_rate": 0.05}

    def __init__(self):
        self.x, self.y = X, X @ np.arange(8) + random.normal(size=800)


class Stopped(NoFault):
    """Early stopping of a training on noisy labels."""

    rounds, callbacks = 500, (lightgbm.early_stopping(10, verbose=False),)
    __init__ = Overfit.__init__


class Estimator(NoFault):
    more = {"max_depth": 4}

    def train(self):
        model = lightgbm.LGBMClassifier(n_estimators=80, **{**self.params, **self.more})
        model.fit(
            self.x[:400], self.y[:400], eval_set=[(self.x[400:], self.y[400:])], callbacks=[track.lightgbm(every=2)]
        )


class Folds(NoFault):
    """Four trainings of one process, as for a cross-validation."""

    def train(self):
        for fold in range(4):
            part = NoFault()
            part.x, part.y = (np.roll(one, 160 * (fold + 1), axis=0) for one in (X, Y))
            part.train()


class CrossValidation(NoFault):
    def train(self):
        callbacks = [track.lightgbm(every=2)]
        lightgbm.cv(self.params, lightgbm.Dataset(X, Y), 80, nfold=4, callbacks=callbacks)


if __name__ == "__main__":
    globals()[sys.argv[1]]().train()
