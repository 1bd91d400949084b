"""Fixtures of the faults."""

from collections.abc import AsyncIterator

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.tcp_proxy import TcpProxy, to_postgres


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[TcpProxy]:
    """Stands between a gateway and the database, and can fall silent or break."""
    folder = conninfo_to_dict(database_url).get("host")
    if folder is None or not str(folder).startswith("/"):
        pytest.skip("the proxy speaks to a Unix socket")
    async with TcpProxy(lambda: to_postgres(str(folder))) as proxy:
        yield proxy
