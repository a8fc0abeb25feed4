"""Heat map of the cores of a run's host on a report."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypergauge.dashboards.plots.axes import time_axis
from hypergauge.dashboards.plots.panels import PROFILED
from hypergauge.insight.charts.cores import Cores

__all__ = ["SCALE", "CoreMap", "core_map"]

# Blue of the page's charts, more opaque the busier a core is: legible on both themes. A measured 0 is not blank.
_COLOR, _IDLE = (0x32, 0x74, 0xD9), 0.1
# Opacity of the scale, with its labels.
SCALE = {
    f"rgb({', '.join(map(str, _COLOR))}, {_IDLE + (1 - _IDLE) * share:.2f})": f"{share:.0%}" for share in (0, 0.5, 1)
}
# Pixels of a core's row, and of the whole map.
_ROW, _LEAST, _MOST = 18, 40, 260
_TICKS = 5


@dataclass(frozen=True, slots=True)
class CoreMap:
    """Heat map of cores: an image with a pixel for each core and column, and its labels.

    Attributes
    ----------
    height
        Height on the page, in pixels.
    text
        Content in a sentence, for those who do not see it.
    """

    title: str
    image: str
    height: int
    first: str
    last: str
    ticks: tuple[str, ...]
    axis: str
    text: str


def core_map(found: Cores) -> CoreMap:
    """Return the heat map of a run's cores."""
    run = found.run
    # The first and last parts of a second may hold more CPU time than they last.
    shares = np.clip(found.shares, 0, 1)
    means = np.nanmean(shares, axis=1)
    busiest = int(np.argmax(means))
    axis = time_axis("time", found.end)
    return CoreMap(
        f"{run.full_label} {run.name}".rstrip() + PROFILED * bool(run.profilers) + (f" on {run.host}" if run.host else ""),
        base64.b64encode(_png(shares)).decode(),
        min(_MOST, max(_LEAST, _ROW * len(found.names))),
        found.names[0],
        found.names[-1],
        tuple(f"{at / axis.size:.4g}" for at in np.linspace(found.start, found.end, _TICKS)),
        axis.title,
        f"{len(found.names)} cores, {np.mean(means):.0%} busy on average; core {found.names[busiest]} most, {means[busiest]:.0%}",
    )  # fmt: skip


def _png(shares: npt.NDArray[np.float64]) -> bytes:
    from matplotlib import image  # imports matplotlib, a quarter of a second

    pixels = np.zeros((*shares.shape, 4), np.uint8)
    pixels[..., :3] = _COLOR
    pixels[..., 3] = np.round(255 * np.nan_to_num(_IDLE + (1 - _IDLE) * shares))
    file = io.BytesIO()
    image.imsave(file, pixels, format="png")
    return file.getvalue()
