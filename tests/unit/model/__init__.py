"""The model: pure data and its arithmetic."""
