"""Conversion of responses to samples."""
