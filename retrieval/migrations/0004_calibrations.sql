-- Fitted models of the local grader, every version of every collection; the newest counts.
CREATE TABLE calibration (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      text NOT NULL,
    collection  text NOT NULL,  -- a name, not a key: labels outlive a collection that is ingested anew
    grader      text NOT NULL,
    version     text NOT NULL,
    model       jsonb NOT NULL,
    made_at     timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX calibration_newest ON calibration (tenant, collection, grader, id DESC);
