"""`gateway ask` is traced as a request is."""

import subprocess
import sys
from pathlib import Path

from tests.support.gateway_process import ROOT, SCRIPTED, environment
from tests.support.otlp_receiver import otlp_receiver


def test_an_answer_on_the_terminal_has_the_same_tree(tmp_path: Path) -> None:
    with otlp_receiver() as receiver:
        settings = {**SCRIPTED, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{receiver.endpoint}/v1/traces"}
        done = subprocess.run(
            [sys.executable, "-m", "gateway", "ask", "Is it? [[grade_ms=1 ttft_ms=1 tps=2000 tokens=5]]"],
            cwd=ROOT,
            env=environment(tmp_path, settings),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        spans = receiver.wait_until(lambda spans: len(spans) >= 6)
    names = {span.name for span in spans}
    assert names == {"HTTP ask", "invoke_agent gateway", "attempt", "retrieval default", "chat scripted"}
    ids = {span.span_id for span in spans}
    assert [span.name for span in spans if span.parent_id not in ids] == ["HTTP ask"]
