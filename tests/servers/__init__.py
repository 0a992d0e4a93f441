"""Real database servers for tests, benchmarks and campaigns, started from programs that come with the lock."""
