"""DCGM's sentinel values for missing values.

Source: dcgm_structs.h and dcgm_fields.h, ``DCGM_INT32_BLANK``, ``DCGM_INT64_BLANK``, ``DCGM_FP64_BLANK`` and the three
after each: not found, not supported, no permission.
"""

from __future__ import annotations

__all__ = ["FP64", "INT32", "INT64"]

INT32 = range(0x7FFFFFF0, 0x7FFFFFF4)  # 64-bit counters reach larger numbers
INT64 = 0x7FFFFFFFFFFFFFF0  # the first sentinel; no value is above it
FP64 = range(140737488355328, 140737488355332)
