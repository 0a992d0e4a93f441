"""The same work through stepwell and through its peers, side by side in one run (`make bench-peers`)."""
