"""Styles of PyTorch trainings that change what a watch uses as well: hooks, `torch.save`, closures, samplers."""

from __future__ import annotations

__all__ = ["INTERVENTIONS"]

INTERVENTIONS = {
    "hooks removed from their dictionary": """
model = dense(); optimizer = sgd(model)
def hook(factor):
    return lambda module, inputs, output: output * factor
def step():
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
kept = model[0]._forward_hooks
first, *rest = [one.register_forward_hook(hook(0.5)) for one in model]; counts = []
watch(model)
model[0]._forward_hooks.clear(); step()
model[1]._forward_hooks.pop(rest[0].id); step()
step(); del model[2]._forward_hooks[rest[1].id]; step()
late = model[0].register_forward_hook(hook(0.7)); early = model[0].register_forward_hook(hook(0.9), prepend=True)
model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,)); step()
late.remove(); step(); kept[0] = hook(0.3); step(); kept.clear(); model[0]._forward_pre_hooks.popitem(); step()
model[3]._forward_hooks = type(kept)(); step(); step()
model[4].register_forward_hook(hook(0.1)); model[4]._forward_hooks.update({}); step()
for one in watches:
    one.close()
step(); counts += [list(one._forward_hooks) for one in model]
rest[3].remove(); step()
return model, [len(one) for one in counts], [type(one._forward_hooks).__name__ for one in model[:4]], bool(model._forward_hooks)
""",
    "reparametrized for some steps": """
from torch.nn.utils import prune, weight_norm, remove_weight_norm
model = dense(); weight_norm(model[0]); prune.l1_unstructured(model[2], "weight", 0.5); optimizer = sgd(model)
watch(model[0], prefix="0."); watch(model[2], prefix="2."); watch(model)
def step():
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
step(); step(); remove_weight_norm(model[0]); prune.remove(model[2], "weight"); optimizer = sgd(model); step(); step()
prune.l1_unstructured(model[4], "weight", 0.5); optimizer = sgd(model); step(); prune.remove(model[4], "weight")
for one in watches:
    one.close()
return model, model(x), [len(one._forward_pre_hooks) for one in model]
""",
    "hooks added within forward": """
class Late(nn.Module):
    def __init__(self, body):
        super().__init__(); self.body = body; self.handles = []
    def forward(self, a):
        for handle in self.handles:
            handle.remove()
        self.handles = [self.register_forward_hook(lambda module, inputs, output: output * 2, prepend=True)]
        out = self.body(a); seen.append(bool(self._forward_hooks) + len(self._forward_hooks)); return out
class Failing(Late):
    def forward(self, a):
        self.register_forward_hook(lambda *_: seen.append("always"), always_call=True)
        super().forward(a); raise ValueError("no")
seen = []; model = Late(nn.Sequential(Late(nn.Linear(6, 4)), nn.ReLU(), nn.Linear(4, 2))); optimizer = sgd(model); outs = []
watch(model)
for number in range(6):
    if number == 3:
        model.body[1].register_forward_hook(lambda module, inputs, output: output * 3)
        hooked = model.register_forward_pre_hook(lambda module, inputs: None)
    optimizer.zero_grad(); outs.append(model(x)); F.cross_entropy(outs[-1], y).backward(); optimizer.step()
failing = Failing(nn.Linear(6, 2)); watch(failing)
for _ in range(3):
    try:
        failing(x)
    except ValueError as error:
        seen.append(str(error))
return model, outs, seen
""",
    "save within another process": """
import functools
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from torch import save
model = dense(); optimizer = sgd(model); watch(model); pickled = []
for _ in range(3):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
    pickled += [pickle.dumps(one) for one in (functools.partial(torch.save, f="a"), save, torch.serialization.save)]
    torch.save(model.state_dict(), io.BytesIO()); torch.save(x, io.BytesIO(), _use_new_zipfile_serialization=False)
with ProcessPoolExecutor(1, get_context("fork")) as pool:
    pool.submit(torch.save, 1, "saved.pt").result()
return model, pickled, torch.save is torch.serialization.save is save, torch.load("saved.pt")
""",
    "arguments of optimizers": """
import functools
class Custom(torch.optim.SGD):
    def step(self, what=None):
        seen.append(type(what).__name__)
        if isinstance(what, nn.Module):
            seen.append(len(list(what.parameters()))); return super().step()
        loss = super().step(what)
        seen.append([getattr(what, name, None) for name in ("note", "calls", "result", "args")][:2])
        seen.append(what.result() if hasattr(what, "result") else None); what.__dict__["last"] = 1
        return loss
class Closure:
    calls = 0
    def __call__(self):
        self.calls += 1; optimizer.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); return loss
    def result(self):
        return self.calls
    method = lambda self: self()
seen = []; model = dense(); optimizer = Custom(model.parameters(), 0.05); watch(model); closure = Closure()
def function():
    function.calls = getattr(function, "calls", 0) + 1; return closure()
function.note = "mine"; function.result = lambda: function.calls; partial = functools.partial(function); partial.note = "partial"
for what in (closure, function, closure.method, partial, lambda: closure()):
    for _ in range(2):
        optimizer.step(what)
for _ in range(4):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step(model)
return model, seen, vars(function)["last"], vars(partial), vars(closure)
""",
    "hooks on saved tensors": """
model = dense(); optimizer = sgd(model); watch(model); store = {}; calls = []
def pack(tensor):
    store[len(calls)] = tensor; calls.append("pack"); return len(calls) - 1
def unpack(key):
    calls.append("unpack"); return store.pop(key)
for _ in range(4):
    for part in range(2):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = F.cross_entropy(model(x[part::2]), y[part::2]) * torch.tensor(0.5)
        loss.backward()
    optimizer.step(); optimizer.zero_grad()
return model, calls
""",
    "sampler of its own": """
class Half(torch.utils.data.Sampler):
    def __init__(self):
        pass
    def __iter__(self):
        return iter(torch.randperm(48)[:30].tolist())
    def __len__(self):
        return sum(1 for _ in self)
class Data(TensorDataset):
    def __len__(self):
        torch.rand(1); return super().__len__()
class Batches(torch.utils.data.BatchSampler):
    batch_size = property(lambda self: int(torch.randint(1, 9, ())), lambda self, size: None)
    def __iter__(self):
        return iter([[1, 2, 3], [4, 5]])
model = dense(); optimizer = sgd(model); watch(model); data = TensorDataset(x, y)
batches = Batches(Half(), 8, False)
for loader in (DataLoader(data, 8, sampler=Half()), DataLoader(Data(x, y), 8, shuffle=True), DataLoader(data, batch_sampler=batches)):
    for a, b in loader:
        optimizer.zero_grad(); F.cross_entropy(model(a), b).backward(); optimizer.step()
return model, torch.rand(2)
""",
    "double precision by default": """
torch.set_default_dtype(torch.float64)
try:
    model = dense(); optimizer = sgd(model); watch(model, quantiles=True)
    for _ in range(4):
        optimizer.zero_grad(); F.cross_entropy(model(x.double()), y).backward(); optimizer.step()
    return model
finally:
    torch.set_default_dtype(torch.float32)
""",
}
