"""The exporter ``host``: CPU, memory, disks and network of a host."""
