"""The benchmarks run, and count what they say they count. No test is timed."""

import json
import os
import subprocess
import sys

import pytest
import torch

from benchmarks import report
from benchmarks.budgets import BUDGETS, measured
from benchmarks.measure import compare, peak_bytes
from benchmarks.neighbours import TOOLS, patterns
from tests.conftest import ROOT


def test_everything_runs_on_a_small_setting(tmp_path):
    """Every part is measured, and the report can be made of it; neighbours that are not installed are named."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.run", "--small", "-o", str(tmp_path / "out.json")],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(report.SECTIONS) <= set(found)
    assert found["scoring"]["four kinds / forward pass"]["4 x 21"]["against"]["forward pass"]["ratio"] > 0
    there = {tool.name for tool in TOOLS if tool.there}
    assert set(found["pages"]["4 x 4"]) == there
    assert set(found["pages"]["not installed"]) == {tool.name for tool in TOOLS} - there
    assert "A small setting" in run.stdout


def test_compare_takes_turns():
    """Ours / other for each turn, in an order that alternates; the median and the extremes are of the turns' ratios."""
    order = []

    def work(name, steps):
        def go():
            order.append(name)
            return sum(range(steps))

        return go

    found = compare("a", {"a": work("a", 1_000), "b": work("b", 1_000_000)}, seconds=0, warm=False)
    assert order == ["a", "b", "b", "a"]
    assert found["turns"] == 2
    assert set(found["against"]) == {"b"}
    assert 0 < found["against"]["b"]["low"] <= found["against"]["b"]["ratio"] <= found["against"]["b"]["high"] < 1


def test_peak_is_what_lives_at_once():
    """Two tensors of 1,000,000 numbers one after the other peak at one; held together, at two."""

    def apart():
        for _ in range(2):
            torch.ones(1_000_000)

    def together():
        return torch.ones(1_000_000), torch.ones(1_000_000)

    assert peak_bytes(apart) == pytest.approx(4e6, rel=0.01)
    assert peak_bytes(together) == pytest.approx(8e6, rel=0.01)


def test_made_up_patterns_are_patterns():
    """Rows sum to one, nothing lies on later tokens, and the same seed gives the same."""
    labels, pattern = patterns(2, 3, 7)
    assert len(labels) == 7
    assert pattern.shape == (2, 3, 7, 7)
    torch.testing.assert_close(pattern.sum(-1), torch.ones(2, 3, 7))
    assert not pattern.triu(1).any()
    assert torch.equal(pattern, patterns(2, 3, 7)[1])


def test_every_budget_was_measured():
    """The committed figures answer each bound of the design, and the page has a line for each."""
    answered = measured(json.loads(report.RESULTS.read_text(encoding="utf-8")))
    assert [budget.what for budget, _ in answered] == [budget.what for budget in BUDGETS]
    page = report.PAGE.read_text(encoding="utf-8")
    assert all(f"| {budget.what} |" in page for budget in BUDGETS)


def test_the_page_is_what_was_measured():
    """The page in the docs says what the committed figures say, and nothing else."""
    report.main(["--check"])
