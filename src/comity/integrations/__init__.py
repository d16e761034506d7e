"""comity inside other libraries: one module for each, imported when it is asked for (`comity.httpx`)."""
