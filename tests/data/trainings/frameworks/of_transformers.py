"""Trainings by the Trainer of Transformers: ``python of_transformers.py NAME``, a fault of `faults.py` or one of this file."""

import pickle
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from hypergauge import track
from torch import nn
from torch.optim import AdamW, lr_scheduler
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel, PreTrainedModel
from transformers import Trainer, TrainerCallback, TrainingArguments

sys.path.insert(0, str(Path(__file__).parents[1]))
import faults

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 30}


class Model(nn.Module):
    """Model that returns its loss, as the Trainer expects."""

    def __init__(self, training):
        super().__init__()
        self.model, self.criterion = training.model, training.criterion

    def forward(self, inputs, labels):
        outputs = self.model(inputs)
        return {"loss": self.criterion(outputs, labels), "logits": outputs}


class Rows(Dataset):
    """Data set whose samples are arguments of the model by name."""

    def __init__(self, data, name):
        self.data, self.name = data, name

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        inputs, labels = self.data[index]
        return {self.name: inputs, "labels": labels}


class Hooks(TrainerCallback):
    """What a fault does before a step."""

    def __init__(self, training):
        self.training = training

    def on_step_begin(self, arguments, state, control, **others):
        self.training.before_step(state.global_step)


class Adaptive(faults.NoFault):
    def __init__(self):
        super().__init__()
        self.optimizer = AdamW(self.model.parameters(), 3e-3)


class Bert(Adaptive):
    """Small BERT that counts words."""

    def prepare(self):
        self.x = torch.randint(30, (640, 12))
        self.y = ((self.x < 10).sum(1) // 2).clamp(0, 3)
        config = BertConfig(**SMALL, num_labels=4, max_position_embeddings=12, hidden_act="relu")
        self.model = BertForSequenceClassification(config)


class BertDeadRelu(Bert):
    def prepare(self):
        super().prepare()
        nn.init.constant_(self.model.bert.encoder.layer[0].intermediate.dense.bias, -100.0)


class BertSaturatedActivation(Bert):
    def prepare(self):
        super().prepare()
        with torch.no_grad():
            self.model.bert.pooler.dense.weight *= 10_000


class BertUnchangedTensor(Bert):
    def before_step(self, step):
        if step == 0:
            kept = self.model.bert.pooler.dense.weight
            group = self.optimizer.param_groups[0]
            group["params"] = [one for one in group["params"] if one is not kept]


class Gpt2(Adaptive):
    """Small GPT-2 that learns to count, with gradients of two batches."""

    options = {"gradient_accumulation_steps": 2, "max_grad_norm": 1.0}

    def prepare(self):
        self.x = (torch.randint(30, (640, 1)) + torch.arange(12)) % 30
        self.y = self.x
        config = GPT2Config(
            vocab_size=30, n_positions=12, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
        )
        self.model = GPT2LMHeadModel(config)


def train(training):
    is_whole = isinstance(training.model, PreTrainedModel)
    model = training.model if is_whole else Model(training)
    model.register_state_dict_pre_hook(lambda *_: pickle.dumps(training.checkpoint()))
    rows = [Rows(data, "input_ids" if is_whole else "inputs") for data in training.data_sets()]
    options = {
        "per_device_train_batch_size": training.batch, "num_train_epochs": training.epochs, "eval_strategy": "epoch",
        "save_strategy": "epoch", "save_total_limit": 1, "report_to": [], "disable_tqdm": True, "use_cpu": True,
        "max_grad_norm": 0, **getattr(training, "options", {}),
    }  # fmt: skip
    watch = track.transformers(every=training.every, loss=None if is_whole else training.criterion, quantiles=True)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model, TrainingArguments(folder, **options), train_dataset=rows[0], eval_dataset=rows[1],
            callbacks=[watch, Hooks(training)],
            optimizers=(training.optimizer, lr_scheduler.LambdaLR(training.optimizer, lambda step: 1.0)),
        ).train()  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    train({**vars(faults), **globals()}[sys.argv[1]]())
