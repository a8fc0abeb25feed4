"""Has many short-lived children, and prints at its end the use of all of them according to the kernel."""

import resource
import subprocess
import sys
import time

began = time.time()
print(began, flush=True)
for _ in range(200):
    subprocess.run([sys.executable, "-S", "-c", "for i in range(150_000): i * i"], check=True)
while time.time() - began < 8:
    sum(range(10_000))
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(one.ru_utime + one.ru_stime for one in used))
print(time.time(), flush=True)
