"""Plot of the GPU ledger, as a figure and as a page."""
