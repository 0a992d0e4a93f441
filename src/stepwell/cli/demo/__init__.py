"""The demonstration: an order saga that survives kill -9."""
