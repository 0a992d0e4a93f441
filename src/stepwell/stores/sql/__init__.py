"""What the SQL stores share: Python bodies, never SQL text."""
