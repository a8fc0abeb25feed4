"""What running side by side cost whom, and whether it paid."""
