"""Campaign of random faults over a site, audited against independent logs."""
