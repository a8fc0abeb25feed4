"""Ledger of GPUs: the runs on each GPU over real time, and what sharing cost them."""
