"""Events of ``perf stat``, and its presets: sets of events that answer one question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["EVENTS", "PRESETS", "Alternative", "Part"]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Events that a kind of processor has.

    Attributes
    ----------
    events
        Events in the syntax of ``perf stat -e``. Those in braces are counted at the same time, so that ratios are exact.
    lacks
        Quantities of the part that these events do not give; empty for none.
    """

    events: str
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a preset: the first alternative that perf counts here is taken.

    Attributes
    ----------
    name
        Name in messages.
    """

    name: str
    alternatives: tuple[Alternative, ...]


def _one_of(name: str, *alternatives: str) -> Part:
    return Part(name, tuple(map(Alternative, alternatives)))


def _each(*events: str) -> tuple[Part, ...]:
    return tuple(_one_of(event, event) for event in events)


# Intel's since Ice Lake, as fixed counters; the second level came with Sapphire Rapids. The kernel counts them only in
# a group with `slots` in front.
_LEVEL_1 = ("slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound")
_LEVEL_2 = (*_LEVEL_1, "topdown-mem-bound")
# AMD's since Zen 4. A slot dispatches an operation, or is empty for one of three reasons: their sum is all slots. Five
# of six counters are used, so the memory's share of back-end stalls is another group.
_AMD = (
    "de_src_op_disp.all", "ex_ret_ops", "de_no_dispatch_per_slot.no_ops_from_frontend",
    "de_no_dispatch_per_slot.backend_stalls", "de_no_dispatch_per_slot.smt_contention",
)  # fmt: skip
_AMD_MEMORY = ("ex_no_retire.load_not_complete", "ex_no_retire.not_complete")
_NO_LEVEL_2 = "memory bound"


def _group(*events: str) -> str:
    return "{" + ",".join(events) + "}"


def _of_fast_cores(events: tuple[str, ...]) -> str:
    """Return a group for the fast cores of a processor with two kinds of them."""
    return _group(*(f"cpu_core/{event}/" for event in events))


# The last two are software events.
EVENTS = (
    "instructions", "cycles", "LLC-loads", "LLC-load-misses", "branches", "branch-misses", "context-switches",
    "page-faults",
)  # fmt: skip

PRESETS: Mapping[str, tuple[Part, ...]] = {
    "default": _each(*EVENTS),
    "topdown": (
        Part(
            "topdown",
            (
                # Two kinds of cores first: without the name of one kind, perf counts a part of these events on the other.
                Alternative(_of_fast_cores(_LEVEL_2)),
                Alternative(_group(*_LEVEL_2)),
                Alternative(_group(*_LEVEL_1), _NO_LEVEL_2),
                Alternative(f"{_group(*_AMD)},{_group(*_AMD_MEMORY)}"),
                Alternative(_group(*_AMD), _NO_LEVEL_2),
            ),
        ),
    ),
    "caches": (
        *_each("L1-dcache-loads", "L1-dcache-load-misses"),
        # Intel's, AMD's and Arm's. Hits and misses of Intel and AMD are all loads.
        _one_of(
            "L2 loads",
            "{l2_rqsts.demand_data_rd_hit,l2_rqsts.demand_data_rd_miss}",
            "{l2_cache_req_stat.dc_hit_in_l2,l2_cache_req_stat.ls_rd_blk_c}",
            "{l2d_cache,l2d_cache_refill}",
        ),
        *_each("LLC-loads", "LLC-load-misses"),
    ),
    "tlb": _each("dTLB-loads", "dTLB-load-misses", "iTLB-loads", "iTLB-load-misses"),
    "stalls": _each("cycles", "stalled-cycles-frontend", "stalled-cycles-backend"),
}  # fmt: skip
