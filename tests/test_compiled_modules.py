"""overt.torch's modules inside torch.compile(fullgraph=True), in inference and in training, dropout included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import overt
from overt import models
from overt.torch import (
    AdditiveAttention,
    BilinearAttention,
    CrossAttention,
    DecoderLayer,
    EncoderDecoder,
    EncoderLayer,
    FeedForward,
    LearnedPositions,
    SelfAttention,
    SinusoidalPositions,
)
from overt.torch.nn import MultiheadAttention, swap

TRANSFORMER = models.Transformer(11, 13, width=8, heads=2, inner=16, encoder_layers=1, decoder_layers=1)
RECURRENT = models.Recurrent(11, 13, width=4, state=6, inner=5)


def floats(*shapes: tuple[int, ...]) -> Any:
    return lambda: tuple(torch.randn(shape) for shape in shapes)


def tokens() -> tuple[torch.Tensor, ...]:
    return torch.randint(11, (2, 5)), torch.tensor([5, 3]), torch.randint(13, (2, 3))


CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)
PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

# A module with dropout, what draws its inputs, and its options.
MODULES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "self": (lambda: SelfAttention(8, 4, groups=2, dropout=0.5), floats((2, 5, 8)), {}),
    "causal": (lambda: SelfAttention(8, 2, dropout=0.5), floats((2, 5, 8)), {"mask": overt.causal()}),
    "masked": (lambda: SelfAttention(8, 2, dropout=0.5), floats((2, 5, 8)), {"mask": ~PADDING[:, None, None]}),
    "cross": (lambda: CrossAttention(8, 2, context_width=6, dropout=0.5), floats((2, 5, 8), (2, 3, 6)), {}),
    "additive": (lambda: AdditiveAttention(4, 6, 5, dropout=0.5), floats((2, 5, 4), (2, 3, 6), (2, 3, 7)), {}),
    "bilinear": (lambda: BilinearAttention(4, 6, dropout=0.5), floats((2, 5, 4), (2, 3, 6), (2, 3, 7)), {}),
    "feed_forward": (lambda: FeedForward(8, 16, dropout=0.5), floats((2, 5, 8)), {}),
    "encoder": (lambda: EncoderLayer(8, 2, 16, dropout=0.5), floats((2, 5, 8)), {}),
    "decoder": (lambda: DecoderLayer(8, 2, 16, dropout=0.5), floats((2, 5, 8), (2, 3, 8)), {}),
    "learned": (lambda: LearnedPositions(9, 8), floats((2, 5, 8)), {}),
    "sinusoidal": (SinusoidalPositions, floats((2, 5, 8)), {}),
    "transformer": (lambda: EncoderDecoder(TRANSFORMER, dropout=0.5), tokens, {}),
    "recurrent": (lambda: EncoderDecoder(RECURRENT, dropout=0.5), tokens, {}),
    "drop-in": (
        lambda: MultiheadAttention(8, 2, dropout=0.5, batch_first=True),
        floats((2, 5, 8), (2, 5, 8), (2, 5, 8)),
        {"need_weights": False, "attn_mask": CAUSAL, "key_padding_mask": PADDING, "is_causal": True},
    ),
    "swapped": (
        lambda: swap(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)),
        floats((2, 5, 8)),
        {"src_key_padding_mask": PADDING},
    ),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def seeded(module: nn.Module, inputs: tuple[torch.Tensor, ...], options: dict[str, Any], seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    y = module(*inputs, **options)
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_every_module_compiles_without_graph_breaks(name: str, train: bool) -> None:
    make, draw, options = MODULES[name]
    torch.manual_seed(0)
    module = make().train(train)
    inputs = draw()
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    first, second = (seeded(compiled, inputs, options, seed) for seed in (1, 2))
    # The same random numbers give the same, and others are drawn at every call.
    torch.testing.assert_close(first, seeded(module, inputs, options, 1))
    torch.testing.assert_close(second, seeded(module, inputs, options, 2))
    assert torch.equal(first, second) == (not train or name in ("learned", "sinusoidal"))
    # A longer sequence of other rows.
    if name not in ("causal", "masked", "transformer", "recurrent", "drop-in", "swapped"):
        longer = tuple(torch.randn(3, x.shape[1] + 1, x.shape[2]) for x in inputs)
        torch.testing.assert_close(seeded(compiled, longer, options, 3), seeded(module, longer, options, 3))


@pytest.mark.parametrize("name", ["self", "additive", "decoder", "drop-in"])
def test_gradients_of_compiled_modules(name: str) -> None:
    make, draw, options = MODULES[name]
    torch.manual_seed(0)
    module = make().train()
    inputs = draw()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    found = []
    for run in (module, compiled):
        module.eval()
        y = seeded(run, inputs, options, 1)
        found.append(torch.autograd.grad(y.square().sum(), list(module.parameters())))
        # Dropout, drawn once for both ways.
        module.train()
        y = seeded(run, inputs, options, 1)
        assert all(x.isfinite().all() for x in torch.autograd.grad(y.square().sum(), list(module.parameters())))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")
def test_inductor_computes_the_same() -> None:
    torch.manual_seed(0)
    module = SelfAttention(8, 2).eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        compiled = torch.compile(module, fullgraph=True)
        torch.testing.assert_close(compiled(x, mask=overt.causal()), module(x, mask=overt.causal()))
