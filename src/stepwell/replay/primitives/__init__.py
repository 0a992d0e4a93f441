"""One file per durable verb."""
