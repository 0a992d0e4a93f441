"""Storage: the contract and the answers to it."""
