"""Services: what every worker does at times that records hold. One loop runs them, without a leader or a lock."""
