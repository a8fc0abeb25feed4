"""Device assignment: MIG instances and MPS daemons."""
