"""Files that training scripts import. They need only the standard library."""
