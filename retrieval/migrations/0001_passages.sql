CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE collection (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      text NOT NULL,
    name        text NOT NULL,
    model       text NOT NULL,
    dimensions  integer NOT NULL CHECK (dimensions BETWEEN 1 AND 16000),
    chunking    jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant, name)
);

CREATE TABLE document (
    id            text PRIMARY KEY,
    collection_id bigint NOT NULL REFERENCES collection ON DELETE CASCADE,
    root          text NOT NULL,  -- the folder it was read from: what vanishes there is removed here
    source        text NOT NULL,  -- its path below that folder
    url           text,
    title         text NOT NULL,
    content_hash  text NOT NULL,
    metadata      jsonb NOT NULL DEFAULT '{}',
    ingested_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (collection_id, root, source)
);

-- A vector column without a length holds every model's vectors; each length gets its own partial index (retrieval/store.py).
CREATE TABLE passage (
    id            text PRIMARY KEY,
    document_id   text NOT NULL REFERENCES document ON DELETE CASCADE,
    collection_id bigint NOT NULL REFERENCES collection ON DELETE CASCADE,
    ordinal       integer NOT NULL,
    start_char    integer NOT NULL,
    end_char      integer NOT NULL,
    title         text NOT NULL,
    text          text NOT NULL,
    metadata      jsonb NOT NULL DEFAULT '{}',
    dimensions    integer NOT NULL,
    embedding     vector NOT NULL,
    tsv           tsvector GENERATED ALWAYS AS (to_tsvector('english'::regconfig, title || ' ' || text)) STORED,
    UNIQUE (document_id, ordinal),
    CHECK (vector_dims(embedding) = dimensions)
);

CREATE INDEX passage_collection ON passage (collection_id);
CREATE INDEX passage_tsv ON passage USING gin (tsv);
CREATE INDEX passage_metadata ON passage USING gin (metadata jsonb_path_ops);

-- Any of the text's terms: a question rarely has all of its words in one passage.
CREATE FUNCTION any_of_terms(words text) RETURNS tsquery LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(
        string_agg('''' || replace(replace(term, '\', '\\'), '''', '''''') || '''', ' | '), ''
    )::tsquery
    FROM unnest(tsvector_to_array(to_tsvector('english'::regconfig, words))) AS term
$$;
