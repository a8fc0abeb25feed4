"""Plots that need no server: figures for papers, and pages for a browser."""
