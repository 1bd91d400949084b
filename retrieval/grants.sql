-- What the role that serves may do: nothing that the gateway does not do. Run by the owner after migrations; may be run again at any time.
-- Rows are held apart by the policies of migrations/0011_tenants.sql. A new table's rights come here.
GRANT SELECT ON schema_migration TO gateway_serving;
GRANT SELECT, INSERT, UPDATE ON collection TO gateway_serving;
GRANT SELECT, INSERT, UPDATE, DELETE ON document, term, collection_size TO gateway_serving;
GRANT INSERT (id, document_id, collection_id, ordinal, start_char, end_char, title, text, metadata, dimensions, embedding)
    ON passage TO gateway_serving;
GRANT SELECT, DELETE ON own_passage TO gateway_serving;
GRANT SELECT, INSERT ON coverage_gap, calibration TO gateway_serving;
GRANT SELECT, INSERT, UPDATE, DELETE ON kept_answer, kept_answer_document, recording, recording_chunk, waste_share TO gateway_serving;
GRANT SELECT, INSERT, DELETE ON decision TO gateway_serving;
GRANT SELECT (id, digest, tenant, roles, collections, expires_at, revoked_at) ON api_key TO gateway_serving;
REVOKE EXECUTE ON FUNCTION index_passages, refresh_statistics, sweep_recordings, hold_owner FROM PUBLIC;
GRANT EXECUTE ON FUNCTION index_passages, refresh_statistics, sweep_recordings TO gateway_serving;
