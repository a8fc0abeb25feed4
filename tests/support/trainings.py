"""Small trainings of frameworks as scripts. Each prints as JSON what its framework reports itself."""

from __future__ import annotations

__all__ = ["MODULES", "SCRIPTS"]

DATA = """
import json, os, sys
import numpy as np
from hypergauge import track
X = np.random.default_rng(0).normal(size=(100, 4)).astype("float32")
y = (X.sum(1) > 0).astype("float32")
every = int(os.environ.get("EVERY", "100"))
"""
KERAS = """
import keras
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
saving = keras.callbacks.ModelCheckpoint("model.keras")
fitted = model.fit(X, y, batch_size=32, epochs=2, validation_data=(X, y), verbose=0, callbacks=[track.keras(every=every), saving])
kernel = model.layers[0].kernel.numpy()
print(json.dumps({**fitted.history, "l2": float(np.linalg.norm(kernel)), "name": model.layers[0].kernel.path}))
"""
LIGHTNING = """
import LIGHTNING as lightning, torch
losses, validated = [], []
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def loss(self, batch):
        return torch.nn.functional.mse_loss(self.layer(batch[0]).squeeze(-1), batch[1])
    def training_step(self, batch, number):
        losses.append((loss := self.loss(batch)).item())
        return loss
    def validation_step(self, batch, number):
        self.log("val_loss", loss := self.loss(batch))
        validated.append(loss.item())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(y))
loader = torch.utils.data.DataLoader(data, batch_size=25)
trainer = lightning.Trainer(
    max_epochs=2, accumulate_grad_batches=2, accelerator="cpu", logger=False, enable_progress_bar=False,
    enable_model_summary=False, num_sanity_val_steps=0, callbacks=[track.lightning(every=every)],
)
trainer.fit(Model(), loader, loader)
print()
print(json.dumps({"loss": losses, "val_loss": validated}))
"""
TRANSFORMERS = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
model = GPT2LMHeadModel(GPT2Config(
    vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0, loss_type="ForCausalLM",
))
rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 50, (24, 16))]
options = TrainingArguments(
    "output", per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2, logging_steps=1,
    eval_strategy="epoch", save_strategy="steps", save_steps=5, report_to=[], disable_tqdm=True, use_cpu=True,
)
trainer = Trainer(model, options, train_dataset=rows, eval_dataset=rows[:8], callbacks=[track.transformers(every=every)])
trainer.train()
history = trainer.state.log_history
print()
print(json.dumps({key: [one[key] for one in history if key in one] for key in ("loss", "eval_loss")}))
"""
XGBOOST = """
import xgboost
data, result = xgboost.DMatrix(X, y), {}
xgboost.train(
    {"eval_metric": ["logloss", "auc"]}, data, 5, evals=[(data, "train"), (xgboost.DMatrix(X[:50], 1 - y[:50]), "other")],
    evals_result=result, verbose_eval=False, callbacks=[track.xgboost(every=every)],
)
from sklearn.base import clone
clone(xgboost.XGBClassifier(n_estimators=2, callbacks=[track.xgboost()])).fit(X, y)
print(json.dumps({"loss": result["train"]["logloss"], "val_loss": result["other"]["logloss"]}))
"""
LIGHTGBM = """
import lightgbm
data, result = lightgbm.Dataset(X, y), {}
lightgbm.train(
    {"objective": "binary", "metric": ["auc", "binary_logloss"], "verbose": -1, "min_data_in_leaf": 2}, data, 50,
    valid_sets=[data, lightgbm.Dataset(X[:50], 1 - y[:50], reference=data)], valid_names=["training", "other"],
    callbacks=[track.lightgbm(every=every), lightgbm.early_stopping(2, verbose=False), lightgbm.record_evaluation(result)],
)
with track.phase("after"):
    pass
print(json.dumps({"loss": result["training"]["binary_logloss"], "val_loss": result["other"]["binary_logloss"]}))
"""
SKLEARN = """
import pickle
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPClassifier
linear = SGDClassifier()
watch = track.watch(linear, every=every)
for _ in range(3):
    linear.partial_fit(X, y, classes=[0, 1])
linear.score(X, y)
with open("model.pickle", "wb") as file:
    pickle.dump(linear, file)
watch.close()
assert "fit" not in vars(linear)
boosted = GradientBoostingClassifier(n_estimators=4)
track.watch(boosted, every=every)
boosted.fit(X, y)
network = MLPClassifier(hidden_layer_sizes=(5,), max_iter=3)
track.watch(network, every=every)
network.fit(X, y)
print(json.dumps({
    "l2": float(np.linalg.norm(linear.coef_)), "boosted": list(boosted.train_score_), "network": network.loss_curve_,
}))
"""
SCRIPTS = {
    "keras": DATA + KERAS,
    "lightning": DATA + LIGHTNING.replace("LIGHTNING", "lightning"),
    "pytorch_lightning": DATA + LIGHTNING.replace("LIGHTNING", "pytorch_lightning"),
    "transformers": DATA + TRANSFORMERS,
    "xgboost": DATA + XGBOOST,
    "lightgbm": DATA + LIGHTGBM,
    "sklearn": DATA + SKLEARN,
}
MODULES = {
    "keras": ("keras", "torch"),
    "lightning": ("lightning",),
    "pytorch_lightning": ("pytorch_lightning",),
    "transformers": ("transformers", "accelerate"),
    "xgboost": ("xgboost", "sklearn"),
    "lightgbm": ("lightgbm",),
    "sklearn": ("sklearn",),
}
