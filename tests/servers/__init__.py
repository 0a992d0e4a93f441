"""Real database servers for tests, benchmarks and campaigns, started from programs that come with the lock.

A test asks for the fixture `postgres_url` (a new, empty database) or `every_postgres_url` (the same once for each
version in `binaries.VERSIONS`). A program without pytest uses `shared.shared_server()`. Whoever wants to stop, kill or
follow a server makes one of its own: `with postgres.PostgresServer(18) as server: ...`.

STEPWELL_TEST_POSTGRES is the URL of a running server to use instead of a shared one; its user must be able to create
databases. Without it the programs come from the wheel in the lock, else from the distribution. A server that cannot be
had is a failure, never a skip.
"""
