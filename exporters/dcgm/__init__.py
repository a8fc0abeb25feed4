"""The exporter ``dcgm``: GPUs and MIG instances with dcgm-exporter's names, labels and format."""

from hypergauge.exporters.dcgm.exporter import DcgmExporter

__all__ = ["DcgmExporter"]
