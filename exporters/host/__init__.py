"""The exporter ``host``: CPU, memory, disks, network and network file systems of a host."""
