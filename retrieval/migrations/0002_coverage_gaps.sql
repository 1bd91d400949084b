CREATE TABLE coverage_gap (
    id          text PRIMARY KEY,
    tenant      text NOT NULL,
    collection  text NOT NULL,  -- a name, not a key: a gap outlives its collection
    question    text NOT NULL,
    missing     text,
    reason      text NOT NULL,
    searched    text[] NOT NULL,
    attempts    integer NOT NULL,
    answer_id   text NOT NULL,
    at          timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX coverage_gap_newest ON coverage_gap (tenant, at DESC);
