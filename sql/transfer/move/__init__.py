"""Move of a whole database to another server: resumable, and verified by checksums."""
