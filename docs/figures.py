"""Figures of the site's own pages; the directive lensons-figure calls these functions."""

import torch

import lensons
from lensons.ablation import token_losses as losses_of
from lensons.figures import Figure, pattern_figure, token_values_figure

SENTENCE = "The animal didn't cross the street because it was too tired."


def previous_token_head() -> Figure:
    """The toy model's strongest previous-token head, on the lesson's sentence."""
    model = lensons.load_model("toy")
    (head, _), *_ = lensons.score_heads(model, n_prompts=8, kinds=["previous_token"]).top("previous_token", 1)
    trace = lensons.trace(model, SENTENCE)
    return pattern_figure(
        trace.tokens,
        trace.head(head).pattern,
        heads=[head],
        title=f"Head {head} of the toy model looks one token back",
        caption="Each row is a token that looks; it shares out exactly 1. Hatched cells come later and cannot be seen.",
    )


def induction_heads() -> Figure:
    """Every head of the toy model, coloured by its induction score."""
    return lensons.score_heads("toy", n_prompts=8).figure("induction")


def token_losses() -> Figure:
    """How surprised the toy model is by each token of a sentence that comes twice."""
    model = lensons.load_model("toy")
    tokens = lensons.trace(model, "The dog was too tired. The dog was too tired.").tokens
    losses = losses_of(model, torch.tensor([tokens.ids]))[0]
    return token_values_figure(
        tokens,
        [float("nan"), *losses.tolist()],
        what="loss",
        unit="nats",
        title="How surprised the toy model is",
        caption="The darker, the more. Dashed: the first token, which nothing predicts.",
    )
