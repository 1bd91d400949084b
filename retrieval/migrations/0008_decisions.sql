-- What was decided for each attempt of an answer, in figures and without words (gateway/decision_log.py). Bounded: the oldest rows go.
CREATE TABLE decision (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at                  timestamptz NOT NULL DEFAULT now(),
    tenant              text NOT NULL,
    collection          text NOT NULL,
    trace_id            text NOT NULL,
    question            text NOT NULL,     -- a digest, so that repeats of a question are known as such

    -- The whole answer; the same in each of its rows. The row with attempt = attempts stands for it.
    attempts            smallint NOT NULL,
    path                text NOT NULL,
    reason              text,
    first_byte_s        real,              -- until the first answer byte was handed to the client's socket
    total_s             real NOT NULL,
    grounded            boolean,
    claims              integer,
    unsupported         integer,

    -- The attempt; 0 where there was none: an answer from the cache, or a fault before the first search.
    attempt             smallint NOT NULL,
    strategy            text NOT NULL,
    need                text,
    outcome             text,
    passages            smallint,
    duplicates          smallint,
    outdated            smallint,
    outranked           smallint,
    conflicts           smallint,
    retrieval_s         real,
    signals             jsonb,             -- the free signals (grading/score.py) by name

    grader              text,
    verdict             text,
    p_sufficient        real,
    grade_s             real,
    grader_fault        text,
    grade_input_tokens  integer,
    grade_output_tokens integer,

    speculate           text,
    speculate_p         real,
    speculate_delay_s   real,
    generator           text NOT NULL,
    drafts              smallint NOT NULL,
    first_token_s       real,              -- from the request to the model to its first answer text
    close_s             real,              -- from the verdict until a discarded draft's request was closed
    input_tokens        integer NOT NULL,
    released_tokens     integer NOT NULL,
    discarded_tokens    integer NOT NULL,
    exact               boolean NOT NULL
);

CREATE INDEX decision_newest ON decision (tenant, collection, id DESC);
CREATE INDEX decision_time ON decision (at);
