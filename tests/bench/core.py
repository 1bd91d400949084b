"""The cores of a bench: one for the server that is measured, awake or not, and what it spends there."""

import os
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

CORES = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []  # before any of them is reserved


class Core:
    """The gateway's process, alone on the last core where there is another for everyone else."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._clock = ((~pid) << 3) | 2  # CLOCK_PROCESS_CPUTIME_ID of that process, clock_getcpuclockid(3)

    def reserve(self, others: Sequence[int]) -> bool:
        """Whether there was a core to reserve."""
        if len(CORES) < 2:
            return False
        for thread in self._process.threads():
            os.sched_setaffinity(thread.id, {CORES[-1]})
        for other in (*others, os.getpid()):
            for thread in psutil.Process(other).threads():
                os.sched_setaffinity(thread.id, set(CORES[:-1]))
        return True

    def spent_s(self) -> float:
        return time.clock_gettime(self._clock)

    def memory_kib(self) -> float:
        return float(self._process.memory_info().rss / 1024)


LATENCY = Path("/dev/cpu_dma_latency")  # https://docs.kernel.org/power/pm_qos_interface.html


@contextmanager
def awake(*, is_wanted: bool) -> Iterator[bool]:
    """No core sleeps in the block, where that is wanted and the system lets us ask for it; whether it does.

    A core that sleeps is slow for a while after each of the waits that an answer consists of, and a virtual one as slow as its host likes.
    """
    if not is_wanted or not os.access(LATENCY, os.W_OK):
        yield False
        return
    with LATENCY.open("wb", buffering=0) as wish:  # as long as it is open
        wish.write(struct.pack("i", 0))  # microseconds in which a core is to be there again
        yield True
