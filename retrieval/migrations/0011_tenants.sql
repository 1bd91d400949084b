-- Whose a row is, held by the database: row-level security under a role that owns nothing (docs/decisions/0015-tenants-by-row.md).
-- A transaction says for whom it works, in the setting `gateway.tenant`; one that does not say sees nothing. The role gets its rights
-- from ../grants.sql. A default that is a constant rewrites no table; after it, a row belongs to who writes it. Gateways of the version
-- before, which name no tenant and own the tables, go on as they did: what they write is the default tenant's.

ALTER TABLE collection ADD CHECK (tenant <> ''), ADD UNIQUE (id, tenant);

ALTER TABLE document ADD COLUMN tenant text NOT NULL DEFAULT 'default';
ALTER TABLE passage ADD COLUMN tenant text NOT NULL DEFAULT 'default';
ALTER TABLE term ADD COLUMN tenant text NOT NULL DEFAULT 'default';
ALTER TABLE collection_size ADD COLUMN tenant text NOT NULL DEFAULT 'default';
ALTER TABLE kept_answer_document ADD COLUMN tenant text NOT NULL DEFAULT 'default';
ALTER TABLE recording ADD COLUMN tenant text NOT NULL DEFAULT 'default';
ALTER TABLE recording_chunk ADD COLUMN tenant text NOT NULL DEFAULT 'default';

DO $$
DECLARE
    held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['document', 'passage', 'term', 'collection_size'] LOOP
        EXECUTE format('UPDATE %I AS held SET tenant = c.tenant FROM collection AS c WHERE c.id = held.collection_id AND c.tenant <> ''default''', held);
    END LOOP;
    UPDATE kept_answer_document AS k SET tenant = a.tenant FROM kept_answer AS a WHERE a.id = k.answer_id AND a.tenant <> 'default';
    FOREACH held IN ARRAY ARRAY['document', 'passage', 'term', 'collection_size', 'kept_answer_document', 'recording', 'recording_chunk'] LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN tenant SET DEFAULT coalesce(nullif(current_setting(''gateway.tenant'', true), ''''), ''default'')', held);
    END LOOP;
    FOREACH held IN ARRAY ARRAY['collection', 'document', 'passage', 'term', 'collection_size', 'coverage_gap', 'calibration', 'kept_answer',
                                'kept_answer_document', 'recording', 'recording_chunk', 'decision', 'waste_share'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY own ON %I USING (tenant = current_setting(''gateway.tenant'', true))', held);
    END LOOP;
END
$$;

-- What is in a collection belongs to its tenant. Not checked for the rows that are there: each had its collection's tenant copied.
ALTER TABLE document DROP CONSTRAINT document_collection_id_fkey,
    ADD FOREIGN KEY (collection_id, tenant) REFERENCES collection (id, tenant) ON DELETE CASCADE NOT VALID;
ALTER TABLE passage DROP CONSTRAINT passage_collection_id_fkey,
    ADD FOREIGN KEY (collection_id, tenant) REFERENCES collection (id, tenant) ON DELETE CASCADE NOT VALID;

-- A collection says its tenant: the planner must not take the two for independent, or it thinks a tenant's passages are few.
CREATE STATISTICS passage_tenant (dependencies) ON collection_id, tenant FROM passage;

-- How passages are read. A policy is applied before every condition whose operator is not marked leakproof, and `@@` and `@>` are not:
-- under it no search could use an index for words or metadata. This view says the same and lets them be used. The serving role may not
-- read the table itself.
CREATE VIEW own_passage AS
    SELECT id, document_id, collection_id, ordinal, start_char, end_char, title, text, metadata, dimensions, embedding, tsv, tenant
    FROM passage WHERE tenant = current_setting('gateway.tenant', true);

CREATE OR REPLACE FUNCTION add_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_terms(c) FROM (SELECT DISTINCT collection_id AS c FROM changed ORDER BY 1) AS collections;
    INSERT INTO term AS t (collection_id, tenant, lexeme, passages)
        SELECT collection_id, tenant, lexeme, count(*) FROM changed, unnest(tsvector_to_array(tsv)) AS lexeme GROUP BY 1, 2, 3
        ON CONFLICT (collection_id, lexeme) DO UPDATE SET passages = t.passages + excluded.passages;
    INSERT INTO collection_size AS s (collection_id, tenant, passages, lexemes)
        SELECT collection_id, tenant, count(*), sum(length(tsv)) FROM changed GROUP BY 1, 2
        ON CONFLICT (collection_id) DO UPDATE
        SET passages = s.passages + excluded.passages, lexemes = s.lexemes + excluded.lexemes;
    RETURN NULL;
END
$$;

-- Who owns the tables does these for who does not.
CREATE FUNCTION index_passages(length integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    kind text := CASE WHEN length <= 2000 THEN 'vector' ELSE 'halfvec' END;
BEGIN
    EXECUTE format(
        'CREATE INDEX IF NOT EXISTS %I ON passage USING hnsw ((embedding::%s(%s)) %s) WHERE dimensions = %s',
        'passage_embedding_' || length, kind, length, kind || '_cosine_ops', length
    );
END
$$;

CREATE FUNCTION refresh_statistics() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    ANALYZE collection, document, passage;
END
$$;

-- API keys (gateway/access): of each only the SHA-256 digest. One that was revoked stays, so that the last one's end opens nothing.
CREATE TABLE api_key (
    id          text PRIMARY KEY,
    digest      bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    tenant      text NOT NULL CHECK (tenant <> ''),
    name        text NOT NULL,
    roles       text[] NOT NULL CHECK (cardinality(roles) > 0),
    collections text[],             -- none: every one of its tenant
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    revoked_at  timestamptz
);

CREATE FUNCTION tell_of_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gateway_keys', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER api_key_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON api_key
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_keys();

-- What nobody can resume any more, of every tenant. One after another: the owner, too, may be held to one tenant at a time.
CREATE FUNCTION sweep_recordings(lost_s double precision) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    was text := current_setting('gateway.tenant', true);
    whose text;
BEGIN
    FOR whose IN SELECT 'default' UNION SELECT tenant FROM api_key LOOP
        PERFORM set_config('gateway.tenant', whose, true);
        DELETE FROM recording WHERE expires_at < clock_timestamp()
            AND (isfinite(expires_at) OR alive_at < clock_timestamp() - lost_s * interval '1 second');
    END LOOP;
    PERFORM set_config('gateway.tenant', coalesce(was, ''), true);
END
$$;

-- Whether the owner, too, is held to one tenant at a time: only where the gateway has to serve as the owner (retrieval/serving.py). Not
-- on `passage`, which is read through the view there too.
CREATE FUNCTION hold_owner(wanted boolean) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    held regclass;
BEGIN
    FOR held IN SELECT polrelid::regclass FROM pg_policy WHERE polname = 'own' AND polrelid <> 'passage'::regclass LOOP
        EXECUTE format('ALTER TABLE %s %s ROW LEVEL SECURITY', held, CASE WHEN wanted THEN 'FORCE' ELSE 'NO FORCE' END);
    END LOOP;
END
$$;
