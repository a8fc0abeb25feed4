"""Takes memory until the kernel has had enough."""

from pathlib import Path

Path("/proc/self/oom_score_adj").write_text("1000")
print("begins", flush=True)
taken = []
while True:
    taken.append(bytearray(b"x") * (16 << 20))
