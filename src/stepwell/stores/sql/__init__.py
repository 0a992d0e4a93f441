"""What the SQL stores share. It contains no SQL text except the listing filters."""
