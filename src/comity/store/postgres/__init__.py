"""The store in a Postgres database, for several processes on several machines; it needs asyncpg (`comity[postgres]`)."""
