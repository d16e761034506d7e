"""The store inside a SQLite file: one process, one connection that writes, and no server."""
