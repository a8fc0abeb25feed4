"""Writes 300 kB and ends in the given way."""

import os
import sys

for number in range(3000):
    print(f"line {number:04} ".ljust(99, "."))
if sys.argv[1] == "sigkill":
    os.kill(os.getpid(), 9)
raise ValueError("this is how it ends")
