"""hypergauge: what the hardware did while your models trained."""

from hypergauge.client.track import track

__all__ = ["__version__", "track"]

__version__ = "0.1.0"
