"""How things are measured: two works in turns, so that whatever else the machine does falls on both."""

import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.peers import PEERS

Work = Callable[[], Any]


@dataclass(frozen=True)
class Setting:
    """How much is measured. ``small`` is there to see that everything runs; its numbers mean nothing."""

    small: bool = False

    def choose(self, full: Any, small: Any) -> Any:
        """One of two values."""
        return small if self.small else full

    @property
    def seconds(self) -> float:
        """How long one comparison goes on, at two turns or more."""
        return 0.2 if self.small else 15.0


def compare(ours: str, works: Mapping[str, Work], seconds: float, most: int = 7, warm: bool = True) -> dict[str, Any]:
    """Run works in turns and compare one of them with each of the others.

    Args:
        ours: the name of the work that is compared.
        works: everything that takes its turn, by name.
        seconds: no new turn begins after this time; there are always two turns.
        most: no more turns than this.
        warm: every work runs once before.

    Returns:
        ``turns``; ``seconds``: per work, the median; ``against``: per other work, the median ratio ours / other by
        the clock, the smallest and largest turn's, and the median by processor time, which other programs disturb
        less.
    """
    if warm:
        for work in works.values():
            work()
    wall: dict[str, list[float]] = {name: [] for name in works}
    cpu: dict[str, list[float]] = {name: [] for name in works}
    start, turn = time.perf_counter(), 0
    while turn < 2 or (turn < most and time.perf_counter() - start < seconds):
        for name in works if turn % 2 == 0 else reversed(works):
            clock, processor = time.perf_counter(), time.process_time()
            works[name]()
            wall[name].append(time.perf_counter() - clock)
            cpu[name].append(time.process_time() - processor)
        turn += 1

    def ratios(times: Mapping[str, list[float]], other: str) -> list[float]:
        return [a / b for a, b in zip(times[ours], times[other], strict=True)]

    return {
        "turns": turn,
        "seconds": {name: round(statistics.median(times), 4) for name, times in wall.items()},
        "against": {
            other: spread(ratios(wall, other)) | {"cpu_ratio": round(statistics.median(ratios(cpu, other)), 4)}
            for other in works
            if other != ours
        },
    }


def spread(values: Sequence[float], name: str = "ratio") -> dict[str, float]:
    """The median, the smallest and the largest."""
    return {
        name: round(statistics.median(values), 4),
        "low": round(min(values), 4),
        "high": round(max(values), 4),
    }


def peak_bytes(work: Work) -> int:
    """The most bytes of tensors that live at once while the work runs, above what lived before.

    Counted from torch's own record of what it allocates and frees, so no other program disturbs it.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        work()
    steps = sorted(
        (event.start_ns(), event.nbytes())
        for event in recorded.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    live = most = 0
    for _, change in steps:
        live += change
        most = max(most, live)
    return most


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    packages = ("lensons", "transformer-lens", "torch", "transformers", "playwright", *PEERS)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "versions": {package: installed(package) for package in packages},
    }


def installed(package: str) -> str | None:
    """A package's version, or None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
