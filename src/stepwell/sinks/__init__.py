"""Sinks: where emitted events go."""
