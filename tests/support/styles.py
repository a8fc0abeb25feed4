"""Styles of PyTorch trainings, each a function body that ends with the model and whatever else must be the same."""

from __future__ import annotations

from tests.support.interventions import INTERVENTIONS

__all__ = ["BEGIN", "END", "STYLES"]

BEGIN = """
import copy, hashlib, io, json, pickle, sys, threading, torch, traceback, warnings
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from hypergauge import track
warnings.simplefilter("ignore")
torch.set_num_threads(1)
watches = []
def watch(*args, **options):
    watches.append(track.watch(*args, every=2, **options))
def dense():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), 0.05, **options)
def state(value):
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), value.detach().contiguous().flatten().view(torch.uint8).tolist() if value.numel() else []]
    if isinstance(value, dict):
        return [[str(key), state(one)] for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [state(one) for one in value]
    return value.hex() if isinstance(value, bytes) else repr(value)
def run(name, style):
    torch.manual_seed(0)
    torch.set_grad_enabled(True)
    x = torch.randn(48, 6)
    y = (x.sum(1) > 0).long()
    try:
        result = state(style(x, y))
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        result = f"{type(error).__name__}: {error}"
    after = [torch.rand(1).item(), torch.is_grad_enabled()]
    for one in watches:
        one.close()
    watches.clear()
    after.append(len(torch.utils._python_dispatch._get_current_dispatch_mode_stack()))
    after.append(torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.Python))
    torch.compiler.reset()  # nothing is counted in a script that has compiled something
    print(json.dumps([name, hashlib.sha256(json.dumps(result).encode()).hexdigest() if not isinstance(result, str) else result, after]))
"""
END = "for name, style in STYLES.items():\n    run(name, style)\n"

STYLES = {
    "plain": """
model = dense(); optimizer = sgd(model, momentum=0.9); watch(model)
for _ in range(6):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
return model, optimizer.state_dict()
""",
    "closure": """
model = dense(); optimizer = sgd(model); watch(model); losses = []
for _ in range(6):
    def closure():
        optimizer.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); return loss
    losses.append(optimizer.step(closure))
return model, losses
""",
    "lbfgs": """
model = dense(); optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe"); watch(model)
for _ in range(4):
    def closure():
        optimizer.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); return loss
    optimizer.step(closure)
return model
""",
    "accumulation": """
model = dense(); optimizer = sgd(model); watch(model)
for _ in range(5):
    for part in range(4):
        (F.cross_entropy(model(x[part::4]), y[part::4]) / 4).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step(); optimizer.zero_grad()
return model
""",
    "gan": """
generator, critic = nn.Linear(3, 6), dense()
optimizers = [torch.optim.Adam(one.parameters(), 0.01) for one in (critic, generator)]
watch(generator, prefix="g."); watch(critic, prefix="d.")
for _ in range(5):
    optimizers[0].zero_grad()
    (critic(x).mean() - critic(generator(torch.randn(48, 3)).detach()).mean()).backward(); optimizers[0].step()
    optimizers[1].zero_grad(); critic(generator(torch.randn(48, 3))).mean().backward(); optimizers[1].step()
return generator, critic
""",
    "tuple outputs": """
class Two(nn.Module):
    def __init__(self):
        super().__init__(); self.body = dense()
    def forward(self, a, b):
        out = self.body(a); return out, {"loss": F.cross_entropy(out, b)}
model = Two(); optimizer = sgd(model); watch(model, collections=["weights", "outputs", "inputs", "losses"])
for _ in range(4):
    optimizer.zero_grad(); model(x, b=y)[1]["loss"].backward(); optimizer.step()
return model
""",
    "recurrent": """
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__(); self.cells = nn.LSTM(6, 5, dropout=0.3, num_layers=2); self.head = nn.Linear(5, 2)
    def forward(self, a, hidden=None):
        out, hidden = self.cells(a, hidden); return self.head(out), hidden
model = Recurrent(); optimizer = sgd(model); watch(model); hidden = None
for _ in range(5):
    optimizer.zero_grad(); out, hidden = model(x.view(12, 4, 6), hidden); hidden = tuple(one.detach() for one in hidden)
    out.pow(2).mean().backward(); optimizer.step()
return model, hidden
""",
    "attention": """
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), 2); optimizer = sgd(model); watch(model)
for _ in range(4):
    model.train(); optimizer.zero_grad(); model(x.view(6, 8, 6)).pow(2).mean().backward(); optimizer.step()
    model.eval()
    with torch.no_grad():
        held_out = model(x.view(6, 8, 6))
return model, held_out
""",
    "attention layer": """
model = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True); watch(model); model.eval()
with torch.inference_mode():
    return model(x.view(6, 8, 6))
""",
    "compiled": """
model = dense(); watch(model); compiled = torch.compile(model, backend="aot_eager", fullgraph=True); optimizer = sgd(model)
for _ in range(4):
    optimizer.zero_grad(); F.cross_entropy(compiled(x), y).backward(); optimizer.step()
return model
""",
    "compiled in place": """
class Dense(nn.Module):
    def __init__(self):
        super().__init__(); self.body = dense()
    def forward(self, a):
        return self.body(a)
model = Dense(); model.compile(backend="aot_eager", fullgraph=True); watch(model); optimizer = sgd(model)
for _ in range(4):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
return model
""",
    "compiled step": """
model = dense(); optimizer = torch.optim.Adam(model.parameters(), 0.01); watch(model)
@torch.compile(backend="eager")
def step():
    optimizer.step()
for _ in range(4):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); step()
return model
""",
    "compiled step with hooks": """
model = dense(); optimizer = torch.optim.Adam(model.parameters(), 0.01); watch(model); seen = []
optimizer.register_step_pre_hook(lambda *_: seen.append(threading.get_ident() > 0))
@torch.compile(backend="eager")
def step():
    optimizer.step()
for _ in range(4):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); step()
return model, seen
""",
    "compiled training step": """
model = dense(); optimizer = sgd(model); watch(model); seen = []
@torch.compile(backend="eager")
def step():
    optimizer.zero_grad(); seen.append(threading.get_ident() > 0); loss = F.cross_entropy(model(x), y)
    loss.backward(); optimizer.step(); return loss
return [step().item() for _ in range(4)], model, seen
""",
    "compiled loss": """
model = dense(); optimizer = sgd(model); watch(model)
loss = torch.compile(lambda a, b: F.cross_entropy(a, b) * 2, backend="aot_eager", fullgraph=True)
for _ in range(4):
    optimizer.zero_grad(); loss(model(x), y).backward(); optimizer.step()
return model
""",
    "compiled within a step": """
model = dense(); optimizer = sgd(model); watch(model); loss = None
for _ in range(4):
    optimizer.zero_grad(); out = model(x)
    if _ == 1:
        loss = torch.compile(lambda a, b: F.cross_entropy(a, b) * 2, backend="aot_eager", fullgraph=True)
    (loss or F.cross_entropy)(out, y).backward()
    if _ < 3:
        optimizer.step()
    else:
        torch.compile(optimizer.step, backend="eager")()
return model
""",
    "mixed precision": """
model = dense(); optimizer = sgd(model); scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10); watch(model)
for _ in range(5):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward(); scaler.unscale_(optimizer); scaler.step(optimizer); scaler.update()
return model, scaler.state_dict()
""",
    "checkpointing": """
class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__(); self.first, self.second = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Dropout(0.5)), dense()
    def forward(self, a):
        return self.second(checkpoint(self.first, a, use_reentrant=False) + checkpoint(self.first, a, use_reentrant=True))
model = Checkpointed(); optimizer = sgd(model); watch(model)
for _ in range(4):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
return model
""",
    "loader with workers": """
model = dense(); optimizer = sgd(model); watch(model); order = []
for _ in range(2):
    for a, b in DataLoader(TensorDataset(x, y), 16, shuffle=True, num_workers=2, multiprocessing_context="fork"):
        order.append(b); optimizer.zero_grad(); F.cross_entropy(model(a), b).backward(); optimizer.step()
return model, order
""",
    "exceptions": """
class Rare(nn.Module):
    def __init__(self):
        super().__init__(); self.body = dense(); self.calls = 0
    def forward(self, a):
        self.calls += 1
        if self.calls % 3 == 2:
            raise MemoryError("out of memory")
        return self.body(a)
model = Rare(); optimizer = sgd(model); watch(model); seen = []
for _ in range(9):
    try:
        optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
    except MemoryError as error:
        seen.append(str(error))
return model, seen
""",
    "threads": """
model = dense(); watch(model); models = []
def work(number):
    torch.manual_seed(number); mine = dense(); optimizer = sgd(mine); models.append((number, mine))
    for _ in range(20):
        optimizer.zero_grad(); F.cross_entropy(mine(x), y).backward(); optimizer.step()
torch.manual_seed(0)
for number in range(3):
    thread = threading.Thread(target=work, args=(number,)); thread.start()
    optimizer = sgd(model)
    for _ in range(5):
        optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
    thread.join()
torch.manual_seed(0)
return model, [one for _, one in models]
""",
    "watched threads": """
models = [dense() for _ in range(3)]
def work(number):
    mine = models[number]; optimizer = sgd(mine); watch(mine)
    for _ in range(20):
        optimizer.zero_grad(); F.cross_entropy(mine(x), y).backward(); optimizer.step()
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
return models
""",
    "optimizer within backward": """
model = dense(); watch(model); optimizers = {one: torch.optim.SGD([one], 0.05) for one in model.parameters()}
def step(parameter):
    optimizers[parameter].step(); optimizers[parameter].zero_grad()
for parameter in optimizers:
    parameter.register_post_accumulate_grad_hook(step)
for _ in range(4):
    F.cross_entropy(model(x), y).backward()
return model, torch.rand(1)
""",
    "hooks of its own": """
from torch.optim.optimizer import register_optimizer_step_post_hook
model = dense(); optimizer = sgd(model); seen = []
early = [model.register_forward_hook(lambda *_: seen.append("early")), model[1].register_forward_hook(lambda m, i, o: o * 0.9)]
watch(model)
steps = [optimizer.register_step_post_hook(lambda *_: seen.append("step")), register_optimizer_step_post_hook(lambda *_: seen.append("any"))]
model.register_forward_pre_hook(lambda m, a: (a[0] * 1.1,))
model[0].weight.register_hook(lambda gradient: gradient * 0.5)
model.register_full_backward_hook(lambda *_: seen.append("backward"))
for number in range(5):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
    if number == 2:
        for handle in (*early, *steps):
            handle.remove()
return model, seen, list(model._forward_pre_hooks), len(model._forward_hooks)
""",
    "evaluation": """
model = nn.Sequential(dense(), nn.Dropout(0.5)); optimizer = sgd(model); watch(model); held_out = []
for _ in range(3):
    model.train(); optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
    model.eval()
    with torch.no_grad():
        held_out.append(F.cross_entropy(model(x), y))
return model, held_out
""",
    "functional": """
from torch.func import functional_call, grad, vmap
model = dense(); watch(model); parameters = dict(model.named_parameters())
def loss(parameters, a, b):
    return F.cross_entropy(functional_call(model, parameters, (a[None],)), b[None])
for _ in range(3):
    gradients = vmap(grad(loss), (None, 0, 0))({name: one.detach() for name, one in parameters.items()}, x, y)
    with torch.no_grad():
        for name, one in parameters.items():
            one -= 0.1 * gradients[name].mean(0)
return model, gradients
""",
    "double backward": """
model = dense(); optimizer = sgd(model); watch(model)
for _ in range(4):
    optimizer.zero_grad(); inputs = x.clone().requires_grad_(); out = model(inputs).pow(2).sum()
    [gradient] = torch.autograd.grad(out, inputs, create_graph=True)
    (out + gradient.pow(2).sum()).backward(); optimizer.step()
return model
""",
    "without an optimizer": """
model = dense(); watch(model)
for _ in range(5):
    F.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad; parameter.grad = None
return model
""",
    "backward with a gradient": """
model = dense(); optimizer = sgd(model); watch(model)
for _ in range(4):
    optimizer.zero_grad(); out = model(x); out.backward(gradient=torch.ones_like(out) / len(out)); optimizer.step()
return model
""",
    "modes of its own": """
from torch.utils.flop_counter import FlopCounterMode
model = dense(); optimizer = sgd(model); watch(model); counts = []
for number in range(4):
    optimizer.zero_grad(); loss = F.cross_entropy(model(x), y)
    with FlopCounterMode(display=False) as counter:
        loss.backward(); optimizer.step()
    counts.append(counter.get_total_flops())
return model, counts
""",
    "copies": """
model = dense(); optimizer = sgd(model); watch(model)
for _ in range(3):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward()
    copied = copy.deepcopy(model); shallow = copy.copy(model); optimizer.step()
    copied(x); shallow(x)
return model, copied, sorted(vars(copied)), type(copied._forward_hooks).__name__
""",
    "scripted": """
model = dense(); watch(model); scripted = torch.jit.script(model); traced = torch.jit.trace(model, x)
return scripted, scripted(x), traced(x), scripted.code
""",
    "traced": """
from torch import fx
model = dense(); watch(model); graph = fx.symbolic_trace(model); exported = torch.export.export(model, (x,), strict=False)
return graph.code, graph(x), exported.module()(x), str(exported.graph)
""",
    "exported strictly": """
model = dense(); watch(model); exported = torch.export.export(model, (x,), strict=True)
return exported.module()(x), str(exported.graph)
""",
    "quantized": """
model = dense(); watch(model); model.eval()
quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
return quantized(x), sorted(len(one._forward_pre_hooks) for one in quantized.modules())
""",
    "saved with hooks of its own": """
model = dense(); early = model.register_forward_hook(max); model.register_forward_hook(min); watch(model); files = []
model[0].register_forward_hook(max); late = model.register_forward_pre_hook(min, with_kwargs=True)
for handle in (None, early, late):
    if handle is not None:
        handle.remove()
    buffer = io.BytesIO(); torch.save([model, copy.deepcopy(model)], buffer); files.append(buffer.getvalue())
    with torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.ReLU, nn.Tanh, min, max]):
        torch.load(io.BytesIO(buffer.getvalue()))
return model, files
""",
    "saved within a step": """
model = dense(); optimizer = sgd(model); crit = nn.CrossEntropyLoss(); watch(model, loss=crit); files = []
def save():
    buffer = io.BytesIO(); torch.save((model, crit), buffer); files.append(buffer.getvalue())
    with torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.ReLU, nn.Tanh, nn.CrossEntropyLoss]):
        torch.load(io.BytesIO(buffer.getvalue()))
for number in range(4):
    save(); optimizer.zero_grad(); loss = crit(model(x), y); save(); loss.backward(); save(); optimizer.step()
return model, files
""",
    "replicas": """
model = nn.DataParallel(dense()); optimizer = sgd(model); watch(model)
for _ in range(4):
    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
return model
""",
    "several losses": """
model = dense(); optimizer = sgd(model); watch(model)
for _ in range(4):
    optimizer.zero_grad(); out = model(x); torch.autograd.backward([out[:, 0].sum(), out[:, 1].mean()]); optimizer.step()
return model
""",
    "shared modules": """
model = dense(); twice = nn.Sequential(model, nn.Linear(2, 6), model); optimizer = sgd(twice); watch(twice); watch(model, spans=False)
for _ in range(4):
    optimizer.zero_grad(); F.cross_entropy(twice(x), y).backward(); optimizer.step()
return twice
""",
    "many watches": """
models = []
for fold in range(3):
    model = dense(); optimizer = sgd(model); watch(model); models.append(model)
    for a, b in DataLoader(TensorDataset(x, y), 16):
        optimizer.zero_grad(); F.cross_entropy(model(a), b).backward(); optimizer.step()
return models
""",
    **INTERVENTIONS,
}
