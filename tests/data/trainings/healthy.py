"""Twenty kinds of healthy PyTorch trainings: ``python healthy.py NUMBER``. No rule may fire on them."""

import sys

import torch
from hypergauge import track
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(count=640, classes=4, features=20):
    x = torch.randn(count, features)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def images(count=320):
    y = torch.randint(4, (count,))
    x = 0.3 * torch.randn(count, 1, 12, 12)
    for number, label in enumerate(y.tolist()):
        x[number, 0, 3 * label : 3 * label + 3] += 1
    return x, y


def sequences(count=320, length=12, words=30):
    x = torch.randint(words, (count, length))
    return x, ((x < 10).sum(1) // 2).clamp(0, 3)


def dense(activation=nn.ReLU, norm=False, dropout=0.0, widths=(64, 32), features=20, out=4):
    parts, before = [], features
    for width in widths:
        parts += [nn.Linear(before, width), *([nn.BatchNorm1d(width)] if norm else []), activation()]
        parts += [nn.Dropout(dropout)] if dropout else []
        before = width
    return nn.Sequential(*parts, nn.Linear(before, out))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(144, 4),
    )  # fmt: skip


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.cells = kind(16, 32, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, ids):
        return self.head(self.cells(self.embedding(ids))[0].mean(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 4)

    def forward(self, ids):
        return self.head(self.encoder(self.embedding(ids)).mean(1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(20, 32), nn.Linear(32, 4)
        self.inner = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.scales = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(4))  # as in ReZero

    def forward(self, x):
        x = self.first(x)
        for layer, scale in zip(self.inner, self.scales):
            x = x + scale * torch.relu(layer(x))
        return self.last(x)


class Adapted(nn.Module):
    """Frozen model with an adapter of low rank, one half of which begins as zero."""

    def __init__(self):
        super().__init__()
        self.base = dense()
        for parameter in self.base.parameters():
            parameter.requires_grad = False
        self.down, self.up = nn.Linear(20, 4, bias=False), nn.Linear(4, 4, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def frozen():
    model = dense()
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    return model


def sgd(parameters, rate=0.05):
    return torch.optim.SGD(parameters, rate, momentum=0.9)


def adam(parameters, rate=3e-3):
    return torch.optim.AdamW(parameters, rate)


KINDS = [
    (dense, blobs, sgd, {}),
    (lambda: dense(nn.Tanh), blobs, sgd, {}),
    (lambda: dense(nn.Sigmoid), blobs, lambda p: adam(p, 1e-2), {}),
    (lambda: dense(nn.GELU, norm=True), blobs, adam, {}),
    (lambda: dense(dropout=0.3), blobs, adam, {}),
    (lambda: dense(widths=(64,) * 6, norm=True), blobs, adam, {}),
    (convolutional, images, sgd, {}),
    (convolutional, images, adam, {"quantiles": True}),
    (Recurrent, sequences, lambda p: adam(p, 1e-2), {}),
    (lambda: Recurrent(nn.GRU), sequences, lambda p: adam(p, 1e-2), {}),
    (Attention, sequences, adam, {}),
    (Residual, blobs, sgd, {}),
    (Adapted, blobs, lambda p: adam(p, 1e-2), {}),
    (frozen, blobs, adam, {}),
    (dense, blobs, sgd, {"warm_up": 100}),
    (dense, blobs, adam, {"accumulate": 4}),
    (dense, blobs, adam, {"smoothing": 0.2}),
    (lambda: dense(out=1), lambda: (lambda x: (x, x[:, :1] * 2 + x[:, 1:2]))(torch.randn(640, 20)), adam, {"regression": True}),
    (dense, blobs, lambda p: torch.optim.Adagrad(p, 0.05), {"clip": 1.0}),
    (dense, blobs, lambda p: torch.optim.RMSprop(p, 1e-3), {"epochs": 40, "cosine": True}),
]  # fmt: skip


def main(number):
    torch.manual_seed(number)
    make_model, make_data, make_optimizer, options = KINDS[number]
    model, (x, y) = make_model(), make_data()
    optimizer = make_optimizer([one for one in model.parameters() if one.requires_grad])
    criterion = (
        nn.MSELoss() if options.get("regression") else nn.CrossEntropyLoss(label_smoothing=options.get("smoothing", 0))
    )
    epochs = options.get("epochs", 12)
    quarter = len(x) // 4
    loader = DataLoader(TensorDataset(x[quarter:], y[quarter:]), 20, shuffle=True)
    schedules = []
    if warm_up := options.get("warm_up"):
        schedules.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warm_up)))
    if options.get("cosine"):
        schedules.append(torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader)))
    accumulate = options.get("accumulate", 1)
    track.watch(model, loss=criterion if number % 2 else None, every=5, quantiles=options.get("quantiles", False))
    for _ in range(epochs):
        model.train()
        for step, (inputs, labels) in enumerate(loader):
            loss = criterion(model(inputs), labels) / accumulate
            loss.backward()
            if (step + 1) % accumulate == 0:
                if clip := options.get("clip"):
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                optimizer.zero_grad()
            for schedule in schedules:
                schedule.step()
        model.eval()
        with torch.no_grad():
            found = model(x[:quarter])
            right = (
                (found.argmax(1) == y[:quarter]).float().mean()
                if not options.get("regression")
                else F.mse_loss(found, y[:quarter])
            )
        torch.save(model.state_dict(), "model.pt")
    print(f"{float(right):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
