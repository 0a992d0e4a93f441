"""PostgreSQL: transitions are functions in the database, so each of them is one round trip."""
