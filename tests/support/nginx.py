"""Debian's nginx in front of a gateway, with its own defaults: buffering on."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process

PORTS_TRIED = 3  # a port that was free a moment ago may be taken
START_LIMIT_S = 15.0
END_LIMIT_S = 10.0

CONFIG = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    gzip on;
    gzip_types *;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{upstream};
            {directives}
        }}
    }}
}}
"""


@asynccontextmanager
async def nginx_before(program: str, upstream: int, folder: Path, directives: str = "") -> AsyncIterator[str]:
    """The address of an nginx that passes everything on to `upstream`; it runs inside the block and keeps its files in `folder`."""
    for _ in range(PORTS_TRIED):
        port = free_port()
        config = folder / "nginx.conf"
        config.write_text(CONFIG.format(folder=folder, port=port, upstream=upstream, directives=directives))
        command = [program, "-p", str(folder), "-c", str(config), "-e", str(folder / "error.log")]
        async with await anyio.open_process(command, stdin=None, stdout=None, stderr=None) as process:
            try:
                if await is_listening(process, port):
                    yield f"http://127.0.0.1:{port}"
                    return
            finally:
                await end(process)
    raise AssertionError("nginx did not start:\n" + (folder / "error.log").read_text())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def is_listening(process: Process, port: int) -> bool:
    """Waits until nginx answers (True) or has ended (False)."""
    with anyio.fail_after(START_LIMIT_S):
        while process.returncode is None:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.02)
            else:
                await stream.aclose()
                return process.returncode is None
    return False


async def end(process: Process) -> None:
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(END_LIMIT_S):
                await process.wait()
        if process.returncode is None:
            process.kill()
