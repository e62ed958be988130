"""How long until a command or an import is done, each in a process of its own."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Setting, installed, spread
from benchmarks.peers import PEERS

TURNS = 3


def measure(setting: Setting) -> dict[str, Any]:
    """Seconds per command, in turns; ``above`` is what it takes beyond a Python that does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        page = str(Path(folder, "lesson.html"))
        commands = {
            "python": ["-c", "pass"],
            "import lensons": ["-c", "import lensons"],
            "lensons --help": ["-m", "lensons", "--help"],
            "import transformer_lens": ["-c", "import transformer_lens"],
        }
        if not setting.small:
            commands["lensons lesson attention"] = ["-m", "lensons", "lesson", "attention", "-o", page]
            commands |= {f"import {name}": ["-c", f"import {name}"] for name in PEERS if installed(name) is not None}
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(setting.choose(TURNS, 1) + 1):
            for name, arguments in commands.items():
                taken = _run(arguments)
                if turn:  # the first time fills the disk's cache
                    seconds[name].append(taken)
    bare = seconds["python"]
    engine = seconds["import transformer_lens"]
    return {
        name: {
            **spread(times, "seconds"),
            "above": round(spread([a - b for a, b in zip(times, bare, strict=True)], "s")["s"], 4),
            "of import transformer_lens": spread([a / b for a, b in zip(times, engine, strict=True)]),
        }
        for name, times in seconds.items()
    }


def _run(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start
