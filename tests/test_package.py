"""Importing lensons."""

import subprocess
import sys
import time

import pytest

import lensons


def test_import_loads_nothing_heavy():
    """`import lensons` loads no torch, numpy, einops, jaxtyping or TransformerLens."""
    code = (
        "import sys, lensons; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} "
        "& {'torch','numpy','einops','jaxtyping','transformer_lens','transformers','circuitsvis'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_import_is_quick():
    """`import lensons` takes under 0.1 s beyond starting Python (best of five, both measured here)."""

    def seconds(code):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - start)
        return min(times)

    assert seconds("import lensons") - seconds("pass") < 0.1


@pytest.mark.parametrize("name", [n for n in lensons.__all__ if n != "__version__"])
def test_every_public_name_is_there(name):
    """Each name in `__all__` can be had, and has a docstring."""
    assert getattr(lensons, name).__doc__


def test_trace_stays_a_function():
    """Importing any module of lensons does not put a module in the place of `lensons.trace`."""
    import lensons.tracing

    assert callable(lensons.trace)
    assert lensons.tracing.trace is lensons.trace


def test_an_unknown_name_is_an_attribute_error():
    """A name that is not there says so by name."""
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = lensons.nothing_like_it
