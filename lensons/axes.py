"""The words for tensor axes, the same everywhere in lensons.

======== ==============================================================
word     meaning
======== ==============================================================
layer    which block of the model, from 0
head     which attention head in that block, from 0
pos      position of a token in the text, from 0
query    the position that looks
key      the position that is looked at
d_head   the numbers of one query, key or value (64 in GPT-2)
d_model  the numbers of the residual stream (768 in GPT-2 small)
======== ==============================================================

They are jaxtyping aliases; nothing is checked at run time unless a checker is asked for, as the tests do
with ``--jaxtyping-packages=lensons,beartype.beartype``.
"""

from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

Pattern = Float[Tensor, "*lead query key"]
"""Attention weights; each row shares out 1 over the keys."""

HeadPattern = Float[Tensor, "layer head query key"]
HeadVectors = Float[Tensor, "layer head pos d_head"]
HeadWritten = Float[Tensor, "layer head pos d_model"]
LayerHead = Float32[Tensor, "layer head"]
Score = Float32[Tensor, "*lead"]
TokenIds = Int[Tensor, "*batch pos"]
PositionMask = Bool[Tensor, "*batch pos"]
Targets = Bool[Tensor, "*batch query key"]
