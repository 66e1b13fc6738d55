"""overt.torch: attention with gradients, and modules that call the layers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from overt import layers, models
from overt.errors import ArgumentError
from overt.torch import (
    AdditiveAttention,
    BilinearAttention,
    CrossAttention,
    DecoderLayer,
    EncoderDecoder,
    EncoderLayer,
    LearnedPositions,
    MultiHeadAttention,
    SelfAttention,
    SinusoidalPositions,
)


def draw(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("widths", [None, 5])
def test_multi_head_attention_loads_that_of_torch(widths: int | None) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, kdim=widths, vdim=widths).eval()
    ours = MultiHeadAttention(12, 3, context_width=widths)
    ours.load_state_dict(theirs.state_dict())
    x, z = torch.randn(2, 4, 12), torch.randn(2, 6, widths or 12)
    torch.testing.assert_close(ours(x, z), theirs(x, z, z)[0], rtol=0, atol=1e-6)
    hidden = torch.rand(4, 6) > 0.7
    torch.testing.assert_close(ours(x, z, mask=~hidden), theirs(x, z, z, attn_mask=hidden)[0], rtol=0, atol=1e-6)
    # Inside another module, and in its own form.
    nn.Sequential(ours).load_state_dict({f"0.{name}": x for name, x in theirs.state_dict().items()})
    again = MultiHeadAttention(12, 3, context_width=widths)
    again.load_state_dict(ours.state_dict())
    torch.testing.assert_close(again(x, z), ours(x, z))


MODULES: dict[str, tuple[nn.Module, tuple[tuple[int, ...], ...]]] = {
    "self": (SelfAttention(8, 4, groups=2, dropout=0.5), ((2, 5, 8),)),
    "cross": (CrossAttention(8, 2, context_width=6, bias=False, dropout=0.5), ((2, 5, 8), (2, 3, 6))),
    "additive": (AdditiveAttention(4, 6, 5, dropout=0.5), ((2, 5, 4), (2, 3, 6), (2, 3, 7))),
    "bilinear": (BilinearAttention(4, 6, dropout=0.5), ((2, 5, 4), (2, 3, 6), (2, 3, 7))),
    "encoder": (EncoderLayer(8, 2, 16, dropout=0.5), ((2, 5, 8),)),
    "decoder": (DecoderLayer(8, 2, 16, dropout=0.5), ((2, 5, 8), (2, 3, 8))),
    "learned": (LearnedPositions(9, 8), ((2, 5, 8),)),
    "sinusoidal": (SinusoidalPositions(), ((2, 5, 8),)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_own_move_and_save_their_parameters(name: str) -> None:
    module, shapes = MODULES[name]
    inputs = draw(*shapes, dtype=torch.float32)
    module.eval()
    y = module(*inputs)
    y.square().sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    copy.deepcopy(module).load_state_dict(module.state_dict())
    torch.testing.assert_close(module.double()(*(x.double() for x in inputs)), y.double(), rtol=0, atol=1e-5)
    module.float()


@pytest.mark.parametrize("name", ["self", "cross", "additive", "bilinear", "encoder", "decoder"])
def test_dropout_obeys_eval(name: str) -> None:
    module, shapes = MODULES[name]
    inputs = draw(*shapes, dtype=torch.float32)
    module.train()
    assert not torch.allclose(module(*inputs), module(*inputs))
    module.eval()
    assert torch.equal(module(*inputs), module(*inputs))


@pytest.mark.parametrize(
    "model",
    [
        models.Transformer(11, 13, width=8, heads=2, inner=16, encoder_layers=1, decoder_layers=2),
        models.Recurrent(11, 13, width=4, state=6, inner=5),
    ],
)
def test_whole_models_give_what_numpy_gives(model: Any) -> None:
    module = EncoderDecoder(model, dropout=0.3).eval()
    source, lengths, target = np.arange(10).reshape(2, 5), np.array([5, 3]), np.arange(8).reshape(2, 4)
    arrays = {name: x.detach().numpy() for name, x in module.checkpoint_parameters().items()}
    assert {name: x.shape for name, x in arrays.items()} == model.shapes()
    expected = model.logits(layers.nested(arrays), source, lengths, target)
    found = module(*(torch.from_numpy(x) for x in (source, lengths, target)))
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-5)
    found.sum().backward()
    unused = {name for name, x in module.named_parameters() if x.grad is None}
    assert unused == set()


def test_sizes_that_do_not_fit_are_refused() -> None:
    for wrong in (lambda: MultiHeadAttention(10, 3), lambda: MultiHeadAttention(12, 4, groups=3)):
        with pytest.raises(ArgumentError):
            wrong()
    with pytest.raises(ArgumentError, match="dropout"):
        SelfAttention(8, 2, dropout=1.0)
