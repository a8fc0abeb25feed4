"""Hooks of PyTorch."""
