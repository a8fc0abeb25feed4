"""Training scripts of other projects, run as they are and by ``bench run``."""
