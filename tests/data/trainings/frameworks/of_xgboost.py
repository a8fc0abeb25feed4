"""Trainings by XGBoost: ``python of_xgboost.py NAME``, one with a fault or a healthy one."""

import sys
import time

import numpy as np
import xgboost
from hypergauge import track

random = np.random.default_rng(0)
X = random.normal(size=(800, 8))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(float)


class NoFault:
    """Training without a fault; the others differ from it in one respect."""

    every, rounds, callbacks = 2, 80, ()
    params = {"objective": "binary:logistic", "eval_metric": "logloss", "max_depth": 2, "eta": 0.1, "nthread": 1}
    more = {}

    def __init__(self):
        self.x, self.y = X, Y

    def train(self):
        data, other = (xgboost.DMatrix(self.x[part], self.y[part]) for part in (slice(400), slice(400, None)))
        xgboost.train(
            {**self.params, **self.more}, data, self.rounds, evals=[(data, "train"), (other, "validation")],
            verbose_eval=False, callbacks=[track.xgboost(every=self.every), *self.callbacks],
        )  # fmt: skip


class LossNotDecreasing(NoFault):
    more = {"eta": 1e-9}


class NonFinite(NoFault):
    more = {"objective": "reg:squarederror", "eval_metric": "rmse", "eta": 1e15}


class Overfit(NoFault):
    rounds, more = 150, {"max_depth": 8, "eta": 0.5, "min_child_weight": 0}

    def __init__(self):
        self.x, self.y = X, np.where(random.random(800) < 0.3, random.integers(2, size=800), Y)


class Overtraining(Overfit):
    """The same: the validation loss rises for long."""


class Pause(xgboost.callback.TrainingCallback):
    def before_iteration(self, model, epoch, history):
        if epoch == 40:
            time.sleep(25)
        return False


class StalledTraining(NoFault):
    callbacks = (Pause(),)


class SimilarAcrossRuns(NoFault):
    rounds = 60


class Regression(NoFault):
    more = {"objective": "reg:squarederror", "eval_metric": ["rmse", "mae"], "eta": 0.05}

    def __init__(self):
        self.x, self.y = X, X @ np.arange(8) + random.normal(size=800)


class Stopped(NoFault):
    """Early stopping of a training on noisy labels."""

    rounds, callbacks = 500, (xgboost.callback.EarlyStopping(10),)
    __init__ = Overfit.__init__


class Estimator(NoFault):
    more = {"max_depth": 4}

    def train(self):
        model = xgboost.XGBClassifier(
            n_estimators=80, callbacks=[track.xgboost(every=2)], **{**self.params, **self.more}
        )
        model.fit(self.x[:400], self.y[:400], eval_set=[(self.x[400:], self.y[400:])], verbose=False)


class Folds(NoFault):
    """Four trainings of one process, as for a cross-validation."""

    def train(self):
        for fold in range(4):
            part = NoFault()
            part.x, part.y = (np.roll(one, 160 * (fold + 1), axis=0) for one in (X, Y))
            part.train()


class CrossValidation(NoFault):
    def train(self):
        callbacks = [track.xgboost(every=2)]
        xgboost.cv(self.params, xgboost.DMatrix(X, Y), 80, nfold=4, callbacks=callbacks)


if __name__ == "__main__":
    globals()[sys.argv[1]]().train()
