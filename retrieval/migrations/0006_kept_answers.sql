-- Verified answers kept for the next who asks the same (gateway/cache.py), with the state of every document they rest on.
CREATE TABLE kept_answer (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      text NOT NULL,
    collection  text NOT NULL,
    made_by     text NOT NULL,
    model       text NOT NULL,
    question    text NOT NULL,
    embedding   vector NOT NULL,
    answer      jsonb NOT NULL,
    kept_at     timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX kept_answer_newest ON kept_answer (tenant, collection, id DESC);

CREATE TABLE kept_answer_document (
    answer_id    bigint NOT NULL REFERENCES kept_answer ON DELETE CASCADE,
    document_id  text NOT NULL,  -- no key: a document that is replaced may be gone for a moment, and is then another one
    content_hash text NOT NULL,
    PRIMARY KEY (answer_id, document_id)
);
