"""Files and folders that several processes share on one host."""
