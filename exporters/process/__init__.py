"""The exporter ``process``: the resources that each run uses."""
