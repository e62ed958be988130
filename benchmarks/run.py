"""Measure everything: ``python -m benchmarks.run [--small] [--only scoring pages] [-o FILE]``.

Writes JSON to a file and the tables of the report to standard output. With ``--only``, the other parts stay as they
are in the file. On a machine that does other work too, set OMP_WAIT_POLICY=PASSIVE: else threads that wait for each
other take most of the time.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
    parser.add_argument("-o", "--output", type=Path, default=report.RESULTS)
    options = parser.parse_args(arguments)
    setting, here = Setting(options.small), machine()
    found: dict[str, Any] = {"small": options.small, "machine": here, "seconds": {}, "load": {}}
    if len(options.only) < len(PARTS) and options.output.is_file():
        found = json.loads(options.output.read_text(encoding="utf-8"))
        if (found["small"], found["machine"]) != (options.small, here):
            sys.exit(f"{options.output} was measured elsewhere, or on another day. Measure everything, or use -o.")
    for name in options.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        start = time.perf_counter()
        found[name] = PARTS[name](setting)
        found["seconds"][name] = round(time.perf_counter() - start, 1)
        found["load"][name] = round(os.getloadavg()[1], 2)
        options.output.parent.mkdir(parents=True, exist_ok=True)  # after each part: an interrupt loses only the rest
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(report.tables(found))


if __name__ == "__main__":
    main()
