"""`make bench-page`: what the page weighs, what it asks for and when it is first painted, by headless Chromium, each visit a first one."""

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from playwright.async_api import Browser

from gateway.bench.figures import Json, Line, machine, report, spread
from tests.bench.stage import workshop
from tests.support.browser import chromium, visit
from tests.support.gateway_process import gateway_process

VISITS = 9
PAINT_MS, SIZE_BYTES = 100, 100_000  # to be reached
WORD = "/healthz"  # a page of one word: what the browser itself takes for a first visit here
PAINTED = 'performance.getEntriesByName("first-contentful-paint")'
FIGURES = f"""async () => {{
    while (!{PAINTED}.length) await new Promise((resolve) => setTimeout(resolve, 20));
    const [page] = performance.getEntriesByType("navigation");
    const loads = [page, ...performance.getEntriesByType("resource")];
    const files = loads.filter((one) => one.name.includes("/web/"));
    return {{
        bytes: loads.reduce((sum, one) => sum + one.transferSize, 0),
        requests: loads.length,
        before: loads.filter((one) => one.startTime < {PAINTED}[0].startTime).length,
        answered: page.responseEnd,
        paint: {PAINTED}[0].startTime,
        there: Math.max(page.responseEnd, ...files.map((one) => one.responseEnd)),
    }};
}}"""


async def seen_at(browser: Browser, base_url: str, path: str) -> dict[str, Any]:
    """What a new visitor's browser measures at `path`, once nothing more is loaded."""
    async with visit(browser, base_url, path) as visitor:
        await visitor.page.wait_for_load_state("networkidle")
        figures: dict[str, Any] = await visitor.run(FIGURES)
        return figures


async def measure(visits: int) -> Json:
    """All figures. The page and the page of one word take turns; the first visit of each warms the browser and does not count."""
    seen: dict[str, list[dict[str, Any]]] = {"/": [], WORD: []}
    with workshop() as folder:
        async with gateway_process(folder) as gateway, chromium() as browser:
            for number in range(visits + 1):
                for path, those in seen.items():
                    figures = await seen_at(browser, gateway.base_url, path)
                    those.extend([figures] if number else [])
            version = browser.version
    page, word = seen["/"], seen[WORD]
    return {
        "machine": machine(),
        "browser": version,
        "visits": visits,
        "bytes": max(one["bytes"] for one in page),
        "requests": max(one["requests"] for one in page),
        "requests_before_the_paint": max(one["before"] for one in page),
        "page_ms": {name: spread([one[name] for one in page]) for name in ("answered", "paint", "there")},
        "word_paint_ms": spread([one["paint"] for one in word]),
        "paint_median_ms": median(one["paint"] for one in page),
        "word_median_ms": median(one["paint"] for one in word),
    }


def lines(figures: Json) -> list[Line]:
    """The table of the figures."""
    size, paint, ms = figures["bytes"], figures["paint_median_ms"], figures["page_ms"]
    return [
        Line("over the wire", f"{size:,} bytes", f"under {SIZE_BYTES:,}", size < SIZE_BYTES),
        Line(
            "requests", f"{figures['requests']}, {figures['requests_before_the_paint']} of them before the first paint"
        ),
        Line("the page's own bytes there", f"{ms['answered']['p50']:.0f} ms"),
        Line(
            "first paint",
            f"{paint:.0f} ms ({ms['paint']['min']:.0f} to {ms['paint']['max']:.0f})",
            f"under {PAINT_MS} ms",
            paint < PAINT_MS,
        ),
        Line("all files there", f"{ms['there']['p50']:.0f} ms"),
        Line("a page of one word", f"{figures['word_median_ms']:.0f} ms"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=VISITS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    figures = anyio.run(measure, chosen.visits)
    title = f"page: median of {figures['visits']} first visits, Chromium {figures['browser']}, {figures['machine']['cores']} cores"
    return report(title, lines(figures), figures, chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
