"""Measure everything: ``python -m benchmarks.run [--small] [--only scoring pages] [-o FILE]``.

Writes JSON to a file and the tables of the report to standard output.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import browser, correctness, lesson, pages, report, scoring, startup
from benchmarks.measure import Setting, machine

PARTS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "startup": startup.measure,
    "scoring": scoring.measure,
    "lesson": lesson.measure,
    "pages": pages.measure,
    "browser": browser.measure,
    "correctness": correctness.measure,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write the JSON, print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a small setting, to see that everything runs")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="these parts only")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads; one is disturbed least (default: 1)")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/latest.json"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    setting = Setting(options.small)
    found: dict[str, Any] = {"small": options.small, "machine": machine(), "seconds": {}}
    for name in options.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        start = time.perf_counter()
        found[name] = PARTS[name](setting)
        found["seconds"][name] = round(time.perf_counter() - start, 1)
    found["machine"]["load_at_end"] = round(os.getloadavg()[0], 2)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(report.tables(found))


if __name__ == "__main__":
    main()
