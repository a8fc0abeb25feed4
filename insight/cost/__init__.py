"""Cost, carbon dioxide and energy to a target."""
