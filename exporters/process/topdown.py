"""Top-down shares of pipeline slots, from the events of Intel's and AMD's processors.

A slot is the chance to start one operation in one cycle. Intel counts the slots of each category (Ice Lake and newer). AMD
counts dispatched operations and the empty slots by reason (Zen 4 and newer), so their sum is all slots, whatever the
width of the pipeline. The formulas are those of the metric groups ``TopdownL1`` and ``PipelineL1`` of perf.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TOPDOWN_HELPS", "topdown_shares"]

TOPDOWN_HELPS = {
    "topdown_retiring_ratio": "Share of pipeline slots whose operations retired.",
    "topdown_bad_speculation_ratio": "Share of pipeline slots wasted on mispredicted paths.",
    "topdown_frontend_bound_ratio": "Share of pipeline slots that the front end left empty.",
    "topdown_backend_bound_ratio": "Share of pipeline slots that the back end stalled.",
    "topdown_memory_bound_ratio": "Share of pipeline slots that the back end stalled for memory.",
    "topdown_smt_contention_ratio": "Share of pipeline slots given to the other thread of the core.",
}
_INTEL = ("topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound")
_MEMORY = "topdown-mem-bound"
_DISPATCHED, _RETIRED = "de_src_op_disp.all", "ex_ret_ops"
_EMPTY = "de_no_dispatch_per_slot."
_AMD = (_DISPATCHED, f"{_EMPTY}no_ops_from_frontend", f"{_EMPTY}backend_stalls", f"{_EMPTY}smt_contention")
_LOADS, _WAITING = "ex_no_retire.load_not_complete", "ex_no_retire.not_complete"


def topdown_shares(counts: Mapping[str, float]) -> dict[str, float]:
    """Return the shares of slots by metric, from counts by event; empty without them."""
    shares = _intel(counts) or _amd(counts)
    return {f"topdown_{name}_ratio": share for name, share in shares.items()}


def _intel(counts: Mapping[str, float]) -> dict[str, float]:
    if not all(event in counts for event in _INTEL) or not (slots := sum(counts[event] for event in _INTEL)):
        return {}
    names = ("retiring", "bad_speculation", "frontend_bound", "backend_bound")
    shares = {name: counts[event] / slots for name, event in zip(names, _INTEL, strict=True)}
    return shares | ({"memory_bound": counts[_MEMORY] / slots} if _MEMORY in counts else {})


def _amd(counts: Mapping[str, float]) -> dict[str, float]:
    if not all(event in counts for event in (*_AMD, _RETIRED)) or not (slots := sum(counts[event] for event in _AMD)):
        return {}
    dispatched, frontend, backend, contention = (counts[event] / slots for event in _AMD)
    # Operations in flight at the ends of an interval are dispatched in one and retire in the next.
    retiring = min(counts[_RETIRED] / slots, dispatched)
    shares = {
        "retiring": retiring, "bad_speculation": dispatched - retiring, "frontend_bound": frontend,
        "backend_bound": backend, "smt_contention": contention,
    }  # fmt: skip
    if _LOADS in counts and counts.get(_WAITING):
        shares["memory_bound"] = backend * counts[_LOADS] / counts[_WAITING]
    return shares
