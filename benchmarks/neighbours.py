"""One way to ask each tool for the same picture: patterns of some heads on some tokens, as one HTML page.

Each adapter takes labels and a pattern [layer, head, query, key] and gives a whole page. Nothing here draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.measure import installed
from benchmarks.peers import PEERS
from lensons.figures import Figure, all_patterns_figure, document

Page = Callable[[Sequence[str], torch.Tensor], str]
_PAGE = "<!doctype html><html><head><meta charset='utf-8'><title>{}</title></head><body>{}</body></html>"


@dataclass(frozen=True)
class Tool:
    """A tool that shows patterns.

    Attributes:
        name: as people know it.
        package: what has to be installed.
        page: labels and pattern [layer, head, query, key] to HTML.
        picture: a CSS selector for what is drawn, once it is there.
        fetches: the page asks the network for its drawing code.
        keeps: how exactly the page keeps the numbers.
    """

    name: str
    package: str
    page: Page
    picture: str
    keeps: str
    fetches: bool = False

    @property
    def there(self) -> bool:
        """Whether it can be measured here."""
        return self.package == "lensons" or installed(self.package) is not None


def lensons_page(labels: Sequence[str], pattern: torch.Tensor) -> str:
    """lensons' figure of all heads, as ``Figure.save`` writes it: up to 64 tokens with CircuitsVis' bundle."""
    figure = _lensons_figure(labels, pattern)
    return document(figure.title, [figure.html()], live=figure.wants_circuitsvis)


def lensons_light_page(labels: Sequence[str], pattern: torch.Tensor) -> str:
    """The same figure drawn by lensons itself, as in a notebook."""
    figure = _lensons_figure(labels, pattern)
    return document(figure.title, [figure.html()], live=False)


def _lensons_figure(labels: Sequence[str], pattern: torch.Tensor) -> Figure:
    """The one place to change when there is a better figure for many heads."""
    return all_patterns_figure(labels, pattern)


def circuitsvis_page(labels: Sequence[str], pattern: torch.Tensor) -> str:
    """CircuitsVis' AttentionHeads in the form for a kernel that has no network: its bundle stands in the page."""
    from circuitsvis.attention import attention_heads

    names = [f"L{layer}H{head}" for layer in range(pattern.shape[0]) for head in range(pattern.shape[1])]
    made = attention_heads(pattern.flatten(0, 1), list(labels), attention_head_names=names)
    return _PAGE.format("CircuitsVis", made.local_src)


def bertviz_page(labels: Sequence[str], pattern: torch.Tensor) -> str:
    """BertViz' model view, or its head view where there is one layer."""
    from bertviz import head_view, model_view

    view = head_view if pattern.shape[0] == 1 else model_view
    made = view([layer[None] for layer in pattern], list(labels), html_action="return")
    return _PAGE.format("BertViz", made.data)


def attnview_page(labels: Sequence[str], pattern: torch.Tensor) -> str:
    """attnview's report."""
    import attnview

    return str(attnview.render_html(pattern.flatten(0, 1), tokens=list(labels)))


def inspectus_page(labels: Sequence[str], pattern: torch.Tensor) -> str:
    """inspectus' chart; it can only display itself, so what it displays is caught."""
    import inspectus
    import IPython.display

    shown: list[str] = []
    display = IPython.display.display
    IPython.display.display = lambda *parts, **_: shown.extend(part.data for part in parts)
    try:
        inspectus.attention(pattern.numpy(), list(labels), list(labels))
    finally:
        IPython.display.display = display
    return _PAGE.format("inspectus", "".join(shown))


_DRAWN = "figure svg, figure canvas, figure img"
_KEEPS = "8 bits, at most 3 % off (of 1,024 tokens shares under 1e-4 are left out); the chosen head float32"
TOOLS = (
    Tool("lensons", "lensons", lensons_page, _DRAWN, _KEEPS),
    Tool("lensons, own drawing", "lensons", lensons_light_page, _DRAWN, _KEEPS),
    Tool("CircuitsVis", "circuitsvis", circuitsvis_page, "canvas", "all digits"),
    Tool(
        "BertViz",
        "bertviz",
        bertviz_page,
        "#vis svg line, #vis svg rect, #vis svg text",
        "all digits, twice",
        fetches=True,
    ),
    Tool("attnview", "attnview", attnview_page, "#weights tr, .destination", "all digits"),
    Tool("inspectus", "inspectus", inspectus_page, "svg rect, canvas", "float32"),
)
assert {tool.package for tool in TOOLS} - {"lensons"} == set(PEERS)


def patterns(n_layers: int, n_heads: int, n: int, seed: int = 0) -> tuple[list[str], torch.Tensor]:
    """Made-up labels and causal patterns with rows that are as uneven as a model's."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(n_layers, n_heads, n, n, generator=generator)
    mask = torch.ones(n, n, dtype=torch.bool).triu(1)
    labels = [f" w{i}" for i in range(n)]
    return labels, scores.masked_fill(mask, -np.inf).softmax(-1)


def make(tool: Tool, n_layers: int, n_heads: int, n: int) -> Any:
    """One tool's page for made-up patterns."""
    return tool.page(*patterns(n_layers, n_heads, n))
