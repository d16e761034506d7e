-- Lanes that nothing but failures came of are paused by themselves, where somebody asked for that.

ALTER TABLE lanes ADD COLUMN failing_since bigint; -- the first failure since the last success
ALTER TABLE lanes ADD COLUMN failed_at bigint; -- the last failure
ALTER TABLE lanes ADD COLUMN pause_reason text; -- why it was paused by itself

CREATE INDEX lanes_failing ON lanes (failing_since) WHERE failing_since IS NOT NULL AND NOT paused;
