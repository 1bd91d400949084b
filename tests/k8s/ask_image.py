"""Serves from a built image over a PostgreSQL of this machine, with the models inside it, and asks a question: see build_image.sh."""

import sys
from pathlib import Path

import anyio
import httpx2
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from retrieval.embedded import EmbeddedPostgres
from tests.bench.stage import workshop
from tests.support.nginx import free_port
from tests.support.tcp_proxy import TcpProxy, to_postgres

START_LIMIT_S = 120.0
DOCUMENT = "# Green tea\n\nGreen tea is steeped at eighty degrees for two minutes.\n"


async def main(work: str, image: str) -> int:
    with workshop() as folder:
        document = folder / "tea.md"
        await anyio.Path(document).write_text(DOCUMENT)
        async with EmbeddedPostgres(folder) as url:
            socket = str(conninfo_to_dict(url)["host"])
            async with TcpProxy(lambda: to_postgres(socket)) as proxy:
                through = make_conninfo(url, host="127.0.0.1", port=proxy.port, sslmode="disable", gssencmode="disable")
                return await asked(work, image, through, document)


async def asked(work: str, image: str, url: str, document: Path) -> int:
    port = free_port()
    command = [
        *("buildah", "--root", f"{work}/store", "--runroot", f"{work}/run", "run"),
        *("--volume", f"{document}:/srv/{document.name}:ro", "--env", f"GATEWAY_DATABASE_URL={url}", image, "--"),
        *("gateway", "serve", "--port", str(port), "--docs", "/srv"),
    ]
    async with await anyio.open_process(command, stdin=None, stdout=None, stderr=None) as process:
        try:
            return await told(port)
        finally:
            if process.returncode is None:
                process.terminate()


async def told(port: int) -> int:
    with anyio.fail_after(START_LIMIT_S):
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=False, timeout=60.0
        ) as http:
            while True:
                try:
                    print((await http.get("/readyz")).text)
                    break
                except httpx2.TransportError:
                    await anyio.sleep(0.2)
            asked = {"question": "At how many degrees is green tea steeped?", "stream": False}
            answer = (await http.post("/v1/answers", json=asked)).json()
    print(answer["path"], answer["answer"])
    return 0 if "eighty degrees" in answer["answer"] else 1


if __name__ == "__main__":
    raise SystemExit(anyio.run(main, sys.argv[1], sys.argv[2]))
