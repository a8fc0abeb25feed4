"""Conversion of scraped values to samples."""
