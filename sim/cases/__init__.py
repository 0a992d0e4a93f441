"""Cases: small workflows as users write them, each with what must come of it, tried with a crash at every commit."""
