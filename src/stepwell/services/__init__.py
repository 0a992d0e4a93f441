"""Services: what every worker does at the times that records hold. One loop runs them all, without a leader or a lock."""
