"""Trainings by scikit-learn: ``python of_sklearn.py NAME``, one with a fault or a healthy one."""

import sys
import time
import warnings

import numpy as np
from hypergauge import track
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

X = np.random.default_rng(0).normal(size=(640, 20))
Y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)


class NoFault:
    """Training without a fault; the others differ from it in one respect."""

    every, parts, rate = 2, 100, 0.1
    x, y = X, Y

    def model(self):
        return MLPClassifier((32,), solver="sgd", learning_rate_init=self.rate, random_state=0)

    def before_part(self, model, number):
        """Act before a call of `partial_fit`."""

    def train(self):
        model = self.model()
        track.watch(model, every=self.every)
        classes = {"classes": range(4)} if hasattr(model, "predict_proba") or isinstance(model, SGDClassifier) else {}
        for number in range(self.parts):
            self.before_part(model, number)
            model.partial_fit(self.x, self.y, **classes)
        model.score(self.x, self.y)


class LossNotDecreasing(NoFault):
    rate = 1e-7


class StalledTraining(NoFault):
    def before_part(self, model, number):
        if number == 40:
            time.sleep(25)


class SimilarAcrossRuns(NoFault):
    parts = 60


class Linear(NoFault):
    def model(self):
        return SGDClassifier(learning_rate="constant", eta0=self.rate, random_state=0)


class ExplodingTensor(Linear):
    def before_part(self, model, number):
        if number == 50:
            model.set_params(eta0=1e4)


class Fitted(NoFault):
    """One `fit`, whose iterations are steps."""

    def train(self):
        model = self.model()
        track.watch(model, every=self.every)
        model.fit(self.x, self.y)


class Boosted(Fitted):
    def model(self):
        return GradientBoostingClassifier(n_estimators=60, max_depth=2)


class NonFinite(Boosted):
    def model(self):
        return GradientBoostingRegressor(n_estimators=60, learning_rate=1e30)


class Perceptron(Fitted):
    def model(self):
        return MLPClassifier((32,), max_iter=100, early_stopping=True, random_state=0)


class Regressor(NoFault):
    y = X @ np.arange(20.0)

    def model(self):
        return MLPRegressor(hidden_layer_sizes=(32,), random_state=0)


class LinearRegressor(Regressor):
    def model(self):
        return SGDRegressor(random_state=0)


class Clusters(NoFault):
    def model(self):
        return MiniBatchKMeans(4, random_state=0, n_init=1)


class Folds(NoFault):
    """Three models of one process, each with its part of the data."""

    def train(self):
        for fold in range(3):
            part = NoFault()
            part.x, part.y = np.roll(X, 200 * fold, axis=0)[:400], np.roll(Y, 200 * fold)[:400]
            part.train()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    globals()[sys.argv[1]]().train()
