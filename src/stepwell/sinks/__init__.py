"""Outbound: where emitted events go."""
