-- What the owner does for who serves (0011_tenants.sql) finds tables by a path. Temporary tables are searched first where a path does not
-- name their schema. Anybody may make some, with triggers, which would then run as the owner. So they come last: never before ours.
DO $$
DECLARE
    path text := current_setting('search_path') || ', pg_temp';
BEGIN
    EXECUTE 'ALTER FUNCTION index_passages(integer) SET search_path = ' || path;
    EXECUTE 'ALTER FUNCTION refresh_statistics() SET search_path = ' || path;
    EXECUTE 'ALTER FUNCTION sweep_recordings(double precision) SET search_path = ' || path;
END
$$;
