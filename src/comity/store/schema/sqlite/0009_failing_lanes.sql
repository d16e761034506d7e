-- Lanes that nothing but failures came of are paused by themselves, where somebody asked for that.

ALTER TABLE lanes ADD COLUMN failing_since INTEGER; -- the first failure since the last success
ALTER TABLE lanes ADD COLUMN failed_at INTEGER; -- the last failure
ALTER TABLE lanes ADD COLUMN pause_reason TEXT; -- why it was paused by itself

CREATE INDEX lanes_failing ON lanes (failing_since) WHERE failing_since IS NOT NULL AND paused = 0;
