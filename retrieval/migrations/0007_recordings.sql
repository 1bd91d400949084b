-- Answers that can be resumed (gateway/stored_recordings.py): their frames, for minutes. Unlogged: after a crash of the database nobody resumes.
CREATE UNLOGGED TABLE recording (
    answer_id   text PRIMARY KEY,
    owner       text NOT NULL,  -- a digest of the API key that asked
    digest      text NOT NULL,  -- of the request's body
    key         text,           -- the Idempotency-Key, while it stands for this answer
    last        integer NOT NULL DEFAULT 0,
    is_ended    boolean NOT NULL DEFAULT false,
    alive_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    read_at     timestamptz,
    expires_at  timestamptz NOT NULL,
    UNIQUE (owner, key)
);

CREATE INDEX recording_expiry ON recording (expires_at);

CREATE UNLOGGED TABLE recording_chunk (
    answer_id  text NOT NULL REFERENCES recording ON DELETE CASCADE,
    first      integer NOT NULL,
    last       integer NOT NULL,
    frames     bytea NOT NULL,
    PRIMARY KEY (answer_id, last)
);
