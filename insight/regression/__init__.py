"""Whether runs became worse than those before them, tested over repetitions."""
