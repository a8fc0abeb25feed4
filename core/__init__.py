"""Settings, files, processes, errors and HTTP: the base of every room."""
