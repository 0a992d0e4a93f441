"""Storage: the contract and its implementations."""
