-- BM25 needs to know in how many passages of its collection a term occurs, and how long a passage is on average (retrieval/lexical.py).
-- Statement triggers keep both exact whatever writes passages, cascades included. A passage is never updated in place.

-- What a title names: its last part (document › section), without what stands in brackets, words only, in lower case. ASCII
-- only: what counts as a letter beyond it differs from one database's locale to the next, and retrieval/names.py must agree.
CREATE FUNCTION name_of(title text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT trim(regexp_replace(
        regexp_replace(
            translate(regexp_replace(title, '^.* › ', ''), 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'),
            ' *\([^()]*\) *$', ''
        ),
        '[\x01-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+', ' ', 'g'
    ))
$$;
CREATE INDEX passage_name ON passage (collection_id, name_of(title));

CREATE TABLE term (
    collection_id bigint NOT NULL REFERENCES collection ON DELETE CASCADE,
    lexeme        text NOT NULL,
    passages      bigint NOT NULL,
    PRIMARY KEY (collection_id, lexeme)
) WITH (fillfactor = 70);

CREATE TABLE collection_size (
    collection_id bigint PRIMARY KEY REFERENCES collection ON DELETE CASCADE,
    passages      bigint NOT NULL,
    lexemes       bigint NOT NULL  -- of all passages together, each passage's own counted once
) WITH (fillfactor = 70);

-- One writer of a collection at a time from here to the end of its transaction: two that count the same terms in different orders would deadlock.
CREATE FUNCTION lock_terms(collection bigint) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7236115011::bigint * 1048576 + collection)
$$;

CREATE FUNCTION add_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_terms(c) FROM (SELECT DISTINCT collection_id AS c FROM changed ORDER BY 1) AS collections;
    INSERT INTO term AS t (collection_id, lexeme, passages)
        SELECT collection_id, lexeme, count(*) FROM changed, unnest(tsvector_to_array(tsv)) AS lexeme GROUP BY 1, 2
        ON CONFLICT (collection_id, lexeme) DO UPDATE SET passages = t.passages + excluded.passages;
    INSERT INTO collection_size AS s (collection_id, passages, lexemes)
        SELECT collection_id, count(*), sum(length(tsv)) FROM changed GROUP BY 1
        ON CONFLICT (collection_id) DO UPDATE
        SET passages = s.passages + excluded.passages, lexemes = s.lexemes + excluded.lexemes;
    RETURN NULL;
END
$$;

-- Updates only: when a collection goes, its counts may be gone before its passages.
CREATE FUNCTION subtract_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_terms(c) FROM (SELECT DISTINCT collection_id AS c FROM changed ORDER BY 1) AS collections;
    UPDATE term AS t SET passages = t.passages - gone.passages
        FROM (SELECT collection_id, lexeme, count(*) AS passages
              FROM changed, unnest(tsvector_to_array(tsv)) AS lexeme GROUP BY 1, 2) AS gone
        WHERE (t.collection_id, t.lexeme) = (gone.collection_id, gone.lexeme);
    UPDATE collection_size AS s SET passages = s.passages - gone.passages, lexemes = s.lexemes - gone.lexemes
        FROM (SELECT collection_id, count(*) AS passages, sum(length(tsv)) AS lexemes FROM changed GROUP BY 1) AS gone
        WHERE s.collection_id = gone.collection_id;
    RETURN NULL;
END
$$;

CREATE TRIGGER passage_added AFTER INSERT ON passage
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION add_terms();
CREATE TRIGGER passage_removed AFTER DELETE ON passage
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION subtract_terms();

INSERT INTO term (collection_id, lexeme, passages)
    SELECT collection_id, lexeme, count(*) FROM passage, unnest(tsvector_to_array(tsv)) AS lexeme GROUP BY 1, 2;
INSERT INTO collection_size (collection_id, passages, lexemes)
    SELECT collection_id, count(*), sum(length(tsv)) FROM passage GROUP BY 1;
