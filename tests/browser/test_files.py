"""The page's files over HTTP, and what they may not hold; no browser is needed here."""

import gzip
import hashlib
import re
import tomllib
from base64 import b64encode
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from gateway.web import MEDIA_TYPES, file_of, page_files, takes_gzip
from tests.support.clients import client
from tests.support.gateway_app import running, scripted_house

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "gateway" / "web"
OURS = [path for path in sorted(WEB.rglob("*")) if path.suffix in MEDIA_TYPES and "vendor" not in path.parts]


def text(name: str) -> str:
    return (WEB / name).read_text()


async def test_a_file_comes_compressed_guarded_and_is_asked_about_by_its_tag_alone() -> None:
    async with running(scripted_house()) as server, client(server.base_url) as http:
        first = await http.get("/web/page.css", headers={"Accept-Encoding": "gzip"})
        assert first.status_code == 200
        assert first.headers["content-encoding"] == "gzip"
        assert first.text == text("page.css")
        assert first.headers["content-type"] == "text/css; charset=utf-8"
        assert first.headers["x-content-type-options"] == "nosniff"
        assert first.headers["referrer-policy"] == "no-referrer"
        again = await http.get(
            "/web/page.css", headers={"Accept-Encoding": "gzip", "If-None-Match": first.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")
        plain = await http.get(
            "/web/page.css", headers={"Accept-Encoding": "identity", "If-None-Match": first.headers["etag"]}
        )
        assert (plain.status_code, "content-encoding" in plain.headers) == (200, False)
        assert plain.headers["etag"] != first.headers["etag"]
        head = await http.head("/web/page.css", headers={"Accept-Encoding": "identity"})
        assert head.headers["content-length"] == str(len(plain.content))
        assert head.content == b""


async def policy_of(path: str) -> tuple[str, dict[str, str]]:
    """What a page holds, and its policy by directive."""
    async with running(scripted_house()) as server, client(server.base_url) as http:
        answer = await http.get(path)
    directives = answer.headers["content-security-policy"].split("; ")
    return answer.text, dict(directive.partition(" ")[::2] for directive in directives)


@pytest.mark.parametrize("path", ["/", "/latency"])
async def test_the_policy_lets_in_this_server_s_own_files_and_of_what_stands_in_the_page_only_what_was_written_there(
    path: str,
) -> None:
    page, policy = await policy_of(path)
    styles, scripts = (
        [
            f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in re.findall(element, page, re.DOTALL)
        ]
        for element in ("<style>(.*?)</style>", "<script>(.*?)</script>")
    )
    assert (len(styles), len(scripts)) == ((1, 2) if path == "/" else (0, 0))
    assert policy["style-src"].split() == ["'self'", *styles]
    assert policy["script-src"].split() == ["'self'", *scripts]
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == policy["img-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"


def test_what_is_written_into_a_page_is_the_file_and_a_missing_one_is_no_page() -> None:
    files = {
        "a.css": b"p { color: red }",
        "x.html": b"<!-- a.css is written here -->",
        "y.html": b"<!-- b.js is written here -->",
    }
    assert file_of("x.html", files).plain.body == b"<style>p { color: red }</style>"
    with pytest.raises(KeyError):
        file_of("y.html", files)


@pytest.mark.parametrize(
    "path",
    ["/web/", "/web/nothing.js", "/web/../web.py", "/web/%2e%2e/web.py", "/web/vendor/sums.txt"],
)
async def test_what_is_no_file_of_the_page_is_not_found(path: str) -> None:
    async with running(scripted_house()) as server, client(server.base_url) as http:
        answer = await http.get(path)
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_a_file_of_the_page_names_no_other_server_and_holds_nothing_inline(path: Path) -> None:
    words = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", words) == []
    if path.suffix == ".html":
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style| style=| on\w+=", words) == []
    if path.suffix == ".js":
        assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", words) == []


def imported(name: str, seen: set[str]) -> set[str]:
    """`seen` with the module `name` and all that it imports."""
    if name not in seen:
        seen.add(name)
        folder = Path(name).parent
        for target in (
            re.findall(r'(?:from |import |import\()"\./([^"]+)"', text(name)) if folder.name != "vendor" else ()
        ):
            imported((folder / target).as_posix(), seen)
    return seen


def test_the_first_paint_waits_for_nothing_but_the_page_s_own_bytes() -> None:
    page = page_files()["index.html"].plain.body.decode()
    assert re.findall(r'(?:src|href)="(web/[^"]+)"', page) == ["web/icon.svg"], (
        "what is named here is fetched before the paint"
    )


def test_every_module_of_the_chat_is_asked_for_at_once_and_no_other() -> None:
    listed = re.search(r"const modules = \[(.*?)\];", text("start.js"), re.DOTALL)
    assert listed is not None
    ahead = [f"{name}.js" for name in re.findall(r'"([^"]+)"', listed.group(1))]
    assert 'import("./web/page.js")' in text("start.js")
    assert sorted(ahead) == sorted(imported("page.js", set()))


def test_every_module_of_the_latency_page_is_loaded_ahead_and_no_other() -> None:
    loaded = re.findall(r'<script[^>]* src="web/([^"]+)"', text("latency.html"))
    ahead = re.findall(r'<link rel="modulepreload" href="web/([^"]+)"', text("latency.html"))
    wanted: set[str] = set()
    for name in loaded:
        imported(name, wanted)
    assert sorted([*loaded, *ahead]) == sorted(wanted)


def test_every_symbol_that_is_drawn_exists_and_no_other_does() -> None:
    page = text("index.html")
    there = set(re.findall(r'<symbol id="i-(\w+)"', page))
    drawn = set(re.findall(r'href="#i-(\w+)"', page))
    for name in imported("page.js", set()):
        drawn |= set(re.findall(r'icon\("(\w+)"\)', text(name)))
    assert drawn | {"check", "cross", "no", "warn"} == there  # those four are chosen by a state


def test_the_two_libraries_are_what_their_pinned_packages_hold() -> None:
    sums = dict(line.split()[::-1] for line in text("vendor/sums.txt").splitlines())
    assert {name: hashlib.sha256((WEB / "vendor" / name).read_bytes()).hexdigest() for name in sums} == sums
    assert set(sums) == {path.name for path in (WEB / "vendor").glob("*.js")}
    locked = (ROOT / "requirements/page/package-lock.json").read_text()
    for name, file in (("dompurify", "purify.min.js"), ("marked", "marked.esm.js")):
        version = re.search(rf'"node_modules/{name}": {{\s+"version": "([\d.]+)"', locked)
        assert version is not None
        assert version.group(1) in text(f"vendor/{file}")[:200]
        assert (WEB / "vendor" / f"{name}.licence.txt").is_file()
    assert "resolved" not in locked


def test_the_wheel_carries_every_file_of_the_page() -> None:
    carried = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    wanted = {path.relative_to(ROOT).as_posix() for path in WEB.rglob("*") if path.is_file()}
    assert len(wanted) > 20
    assert wanted <= carried
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["build-backend"] == "hatchling.build"


@pytest.mark.parametrize(
    ("accepts", "takes"),
    [
        ("gzip, deflate, br, zstd", True),
        ("br;q=1, gzip;q=0.2", True),
        ("GZIP", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
        ("br", False),
        ("", False),
    ],
)
def test_compression_is_what_the_client_allows(accepts: str, takes: bool) -> None:
    assert takes_gzip(accepts) is takes


def test_a_compressed_file_is_the_file() -> None:
    for name, file in page_files().items():
        assert file.packed is None or gzip.decompress(file.packed.body) == file.plain.body
        assert name.endswith(".html") or file.plain.body == (WEB / name).read_bytes()
