"""Debian's nginx in front of a gateway, with its own defaults: buffering on."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    gzip on;
    gzip_types *;
    {upstreams}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://{upstream};
            proxy_set_header Host $http_host; # a gateway without keys is asked by this machine's names alone
            {directives}
        }}
    }}
}}
"""


# What docs/scaling.md says of an nginx before several gateways. `non_idempotent` lets a question go on to the next one that could not
# be given to the first: a gateway that turns a question away, or is not there, has not begun to answer it.
BALANCING = """
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_read_timeout 75s;
            proxy_next_upstream error timeout http_503 non_idempotent;
            proxy_next_upstream_tries 3;
            add_header X-Server $upstream_addr always;
"""


@dataclass(frozen=True, slots=True)
class Balanced:
    """Several gateways, by port, and the directives that nginx treats them with."""

    ports: tuple[int, ...]
    directives: str

    @property
    def block(self) -> str:
        servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in self.ports)
        return f"upstream gateways {{ {servers} }}"


def balancing(*ports: int, directives: str = BALANCING) -> Balanced:
    """In turns; one that fails is asked again with the next request."""
    return Balanced(ports, directives)


@asynccontextmanager
async def nginx_before(
    program: str, upstream: int | Balanced, folder: Path, directives: str = ""
) -> AsyncIterator[str]:
    """The address of an nginx that passes everything on to `upstream`; it runs inside the block and keeps its files in `folder`."""
    if isinstance(upstream, int):
        block, name = "", f"127.0.0.1:{upstream}"
    else:
        block, name, directives = upstream.block, "gateways", upstream.directives + directives
    for _ in range(PORTS_TRIED):
        port = free_port()
        config = folder / "nginx.conf"
        config.write_text(
            CONFIG.format(folder=folder, port=port, upstreams=block, upstream=name, directives=directives)
        )
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
