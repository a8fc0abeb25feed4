"""Drawings of each kind of plot."""
