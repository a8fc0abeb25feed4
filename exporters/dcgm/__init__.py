"""The listener ``dcgm``: what NVIDIA's dcgm-exporter shows of GPUs and MIG instances, in its names, labels and forms."""

from hypergauge.exporters.dcgm.exporter import DcgmExporter

__all__ = ["DcgmExporter"]
