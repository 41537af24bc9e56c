-- Runs are found by their ids, listed by their time, and looked through for those without an end.

CREATE INDEX runs_run ON runs (run);
CREATE INDEX runs_started ON runs (started);
CREATE INDEX runs_open ON runs (started) WHERE ended IS NULL;
