"""Rows and transactions of durable delivery; it knows nothing of HTTP clients, engines or the web.

`base` says what a store promises, `records` what goes in and comes out, `transitions` and `sharing` decide; one package
for each database carries that out, and `comity.testing.StoreConformance` holds all of them to the same promises.
"""
