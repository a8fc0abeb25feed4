"""Code of scripts that build tuples in a thread, while our code reads what the interpreter has.

Python fails to complete a tuple while another thread has it in a list, as one of all objects does.
"""

from __future__ import annotations

__all__ = ["BUILD", "SLOW_LIST"]

SLOW_LIST = """
import gc, time
objects = gc.get_objects
def slow():
    listed = objects()
    time.sleep(1)
    return listed
gc.get_objects = slow
"""
BUILD = (
    SLOW_LIST
    + """
import threading
built = []
def build():
    while len(built) < 100:
        built.append(tuple(time.sleep(0.001) for _ in range(20)))
builder = threading.Thread(target=build)
"""
)
