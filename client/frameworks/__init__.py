"""Callbacks for frameworks that report their steps themselves."""
