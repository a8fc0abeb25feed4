"""Plots without a server: figures for papers, and pages for a browser."""
