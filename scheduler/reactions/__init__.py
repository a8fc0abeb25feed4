"""Actions and notifications when a rule fires."""
