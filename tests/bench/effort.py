"""What a block of load costs: processor time by process, and how late a timer is beside it."""

import os
import time

import anyio
import psutil

from gateway.bench.figures import Json, spread
from tests.bench.stage import Stage

LAG_STEP_S = 0.005


class Effort:
    """Processor time while a block runs, by process, and how late this process's own timer was."""

    def __init__(self, stage: Stage) -> None:
        self._processes = {
            "gateway": psutil.Process(stage.gateway.process.pid),
            "messages": psutil.Process(stage.messages_pid),
            "client": psutil.Process(os.getpid()),
        }
        self._lags: list[float] = []
        self._began = self._now()

    def _now(self) -> dict[str, float]:
        spent = {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}
        machine_s = psutil.cpu_times()
        return {**spent, "machine": sum(machine_s) - machine_s.idle - machine_s.iowait, "all": sum(machine_s)}

    async def watch(self) -> None:
        """Notes the lag of a short sleep, again and again."""
        while True:
            began = time.monotonic()
            await anyio.sleep(LAG_STEP_S)
            self._lags.append((time.monotonic() - began - LAG_STEP_S) * 1000)

    def figures(self, requests: int) -> Json:
        spent = {name: now - self._began[name] for name, now in self._now().items()}
        ours = sum(spent[name] for name in self._processes)
        return {
            "cpu_ms_per_request": {name: round(spent[name] * 1000 / requests, 2) for name in self._processes},
            "machine_busy": round(spent["machine"] / spent["all"], 3),
            "busy_with_other_things": round((spent["machine"] - ours) / spent["all"], 3),
            "client_timer_lag_ms": spread(self._lags),
        }
