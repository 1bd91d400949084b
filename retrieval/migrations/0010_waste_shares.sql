-- What each gateway may discard of its tenants' tokens of the last minute (gateway/waste_shares.py): the shares of all gateways together are
-- never more than the tenant's bucket. Logged, because a share that is forgotten would be lent twice.
CREATE TABLE waste_share (
    tenant      text NOT NULL,
    gateway     text NOT NULL,        -- one process
    tokens      integer NOT NULL CHECK (tokens >= 0),
    expires_at  timestamptz NOT NULL, -- when nothing that it stands for can count any more
    PRIMARY KEY (tenant, gateway)
);
