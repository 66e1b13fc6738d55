"""overt.torch's modules: every habit that torch's own have."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

import overt
from overt import layers, models
from overt.errors import ArgumentError, ShapeError
from overt.grid import host
from overt.models.initial import attention_shapes, feed_forward_shapes, initial
from overt.models.translator import BUNDLED
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

TRANSFORMER = models.Transformer(11, 13, width=8, heads=2, inner=16, encoder_layers=1, decoder_layers=2)
RECURRENT = models.Recurrent(11, 13, width=4, state=6, inner=5)
TOKENS = torch.arange(10).reshape(2, 5), torch.tensor([5, 3]), torch.arange(8).reshape(2, 4)

# What makes each module, from its options, and the shapes of its inputs.
MODULES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "self": (lambda **o: SelfAttention(8, 4, groups=2, **o), ((2, 5, 8),)),
    "cross": (lambda **o: CrossAttention(8, 2, context_width=6, bias=False, **o), ((2, 5, 8), (2, 3, 6))),
    "additive": (lambda **o: AdditiveAttention(4, 6, 5, **o), ((2, 5, 4), (2, 3, 6), (2, 3, 7))),
    "bilinear": (lambda **o: BilinearAttention(4, 6, **o), ((2, 5, 4), (2, 3, 6), (2, 3, 7))),
    "feed_forward": (lambda **o: FeedForward(8, 16, **o), ((2, 5, 8),)),
    "encoder": (lambda **o: EncoderLayer(8, 2, 16, **o), ((2, 5, 8),)),
    "decoder": (lambda **o: DecoderLayer(8, 2, 16, **o), ((2, 5, 8), (2, 3, 8))),
    "learned": (lambda **o: LearnedPositions(9, 8, **o), ((2, 5, 8),)),
    "transformer": (lambda **o: EncoderDecoder(TRANSFORMER, **o), ()),
    "recurrent": (lambda **o: EncoderDecoder(RECURRENT, **o), ()),
}
ATTENTIVE = [name for name in MODULES if name not in ("feed_forward", "learned")]


def made(name: str, **options: Any) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """A module in eval and what it takes, in the module's dtype."""
    torch.manual_seed(0)
    make, shapes = MODULES[name]
    dtype = options.get("dtype") or torch.float32
    return make(**options).eval(), tuple(torch.randn(shape, dtype=dtype) for shape in shapes) or TOKENS


def moved(module: nn.Module) -> None:
    """Parameters that are not the fresh ones."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)


@pytest.mark.parametrize("name", MODULES)
def test_device_and_dtype_are_torchs(name: str) -> None:
    module, inputs = made(name, dtype=torch.float64)
    assert {x.dtype for x in module.parameters()} == {torch.float64}
    assert module(*inputs).dtype == torch.float64
    meta = MODULES[name][0](device="meta", dtype=torch.bfloat16)
    assert {(x.device.type, x.dtype) for x in meta.parameters()} == {("meta", torch.bfloat16)}
    with torch.device("meta"):
        assert {x.device.type for x in MODULES[name][0]().parameters()} == {"meta"}
    torch.set_default_dtype(torch.float64)
    try:
        assert {x.dtype for x in MODULES[name][0]().parameters()} == {torch.float64}
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", MODULES)
def test_what_began_on_meta_is_drawn_like_the_rest(name: str) -> None:
    module, inputs = made(name)
    meta = MODULES[name][0](device="meta").to_empty(device="cpu").eval()
    with torch.no_grad():
        for parameter in meta.parameters():
            parameter.fill_(torch.nan)
    torch.manual_seed(0)
    meta.reset_parameters()
    for (path, ours), theirs in zip(module.named_parameters(), meta.parameters(), strict=True):
        assert (ours.std() == 0) == (theirs.std() == 0), path
        if ours.numel() > 100:
            assert 0.7 < ours.std() / theirs.std() < 1.4, path
    assert meta(*inputs).isfinite().all()
    # The usual loop over all modules does the same.
    for part in meta.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    assert meta(*inputs).isfinite().all()


def test_parameters_are_drawn_as_numpy_draws_them() -> None:
    torch.manual_seed(0)
    module = EncoderDecoder(models.Transformer(300, 200, width=64, heads=4, inner=128))
    arrays = initial(module.model.shapes(), np.random.default_rng(0))
    for name, tensor in module.checkpoint_parameters().items():
        found = tensor.detach().numpy()
        assert abs(found.mean() - arrays[name].mean()) < 0.01, name
        np.testing.assert_allclose(found.std(), arrays[name].std(), rtol=0.05)
        np.testing.assert_allclose(np.abs(found).max(), np.abs(arrays[name]).max(), rtol=0.3)


@pytest.mark.parametrize("name", ["encoder", "decoder", "self"])
def test_names_of_the_layers_load(name: str) -> None:
    shapes = attention_shapes("attention", 8) | feed_forward_shapes("feed_forward", 8, 16)
    if name == "decoder":
        shapes |= attention_shapes("cross", 8)
    arrays = initial(shapes, np.random.default_rng(0))
    tree = layers.nested(arrays)
    x, z = (np.random.default_rng(0).normal(size=(2, n, 8)).astype(np.float32) for n in (5, 3))
    if name == "encoder":
        module: Any = EncoderLayer(8, 2, 16)
        expected = layers.encoder_layer(x, tree, heads=2)
    elif name == "decoder":
        module = DecoderLayer(8, 2, 16)
        context = layers.keys_and_values(z, tree["cross"], heads=2)
        expected = layers.decoder_layer(x, context, tree, heads=2)[0]
    else:
        module = SelfAttention(8, 2)
        arrays = tree["attention"]
        expected = layers.multi_head_attention(x, x, arrays, heads=2)
    given = {path: torch.from_numpy(array) for path, array in arrays.items()}
    module.load_state_dict(given)
    assert set(given) == set(arrays)
    found = module(*(torch.from_numpy(array) for array in ((x, z) if name == "decoder" else (x,))))
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-5)
    # One part of a larger module, too, and onto meta.
    whole = nn.Sequential(copy.deepcopy(module).to("meta"))
    whole.load_state_dict({f"0.{path}": x for path, x in given.items()}, assign=True)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), module.parameters(), strict=True))


@pytest.mark.parametrize("name", models.translator.bundled())
def test_bundled_models_load_and_go_back(name: str) -> None:
    known = models.checkpoint.load(BUNDLED / f"{name}.safetensors")
    module = EncoderDecoder(known.model).eval()
    module.load_state_dict({path: torch.from_numpy(array) for path, array in known.parameters.items()})
    back = module.checkpoint_parameters()
    assert set(back) == set(known.parameters)
    for path, array in known.parameters.items():
        np.testing.assert_array_equal(back[path].detach().numpy(), array)
    source, lengths, target = np.arange(12).reshape(2, 6) + 4, np.array([6, 4]), np.arange(8).reshape(2, 4) + 4
    expected = known.model.logits(layers.nested(known.parameters), source, lengths, target)
    scores = module(*(torch.from_numpy(x) for x in (source, lengths, target)))
    np.testing.assert_allclose(scores.detach().numpy(), expected, atol=2e-4)


@pytest.mark.parametrize("name", MODULES)
def test_copies_and_state_dicts_mean_the_same(name: str) -> None:
    module, inputs = made(name)
    moved(module)
    expected = module(*inputs)
    torch.testing.assert_close(copy.deepcopy(module)(*inputs), expected)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    again = made(name)[0]
    again.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(again(*inputs), expected)
    # A function of the parameters, whose names are those of the state dict.
    assert set(module.state_dict()) == {path for path, _ in module.named_parameters()}
    fresh = made(name)[0]
    torch.testing.assert_close(torch.func.functional_call(fresh, module.state_dict(), inputs), expected)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_close(name: str, dtype: torch.dtype) -> None:
    module, inputs = made(name)
    expected = module(*inputs)
    halved = module.to(dtype)(*(x if x.dtype == torch.int64 else x.to(dtype) for x in inputs))
    assert halved.dtype == dtype
    torch.testing.assert_close(halved.float(), expected, rtol=0, atol=0.1)


@pytest.mark.parametrize("name", MODULES)
def test_what_it_is_shows(name: str) -> None:
    module, _ = made(name, **({} if name == "learned" else {"dropout": 0.25}))
    text = str(module)
    assert "dropout=0.25" in text or name == "learned"
    if name == "self":
        assert "heads=4, groups=2" in text
        assert "in_features=8" in text
    if name in ("learned", "additive"):
        assert {"learned": "position_embedding=(9, 8)", "additive": "query_weight=(5, 4)"}[name] in text


class Scaled(nn.Module):
    """A parametrisation that is easy to see."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 1.5


def owners(module: nn.Module) -> list[tuple[nn.Module, str]]:
    return [(part, name) for part in module.modules() for name, _ in part.named_parameters(recurse=False)]


@pytest.mark.parametrize("name", MODULES)
def test_every_parameter_may_be_parametrised(name: str) -> None:
    module, inputs = made(name)
    moved(module)
    scaled = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in scaled.parameters():
            parameter.mul_(1.5)
    for part, own in owners(module):
        parametrize.register_parametrization(part, own, Scaled())
    y = module(*inputs)
    torch.testing.assert_close(y, scaled(*inputs))
    y.square().mean().backward()
    assert all(x.grad is not None for x in module.parameters())


@pytest.mark.parametrize("name", MODULES)
def test_weight_norm_and_spectral_norm(name: str) -> None:
    module, inputs = made(name)
    expected = module(*inputs)
    matrices = [(part, own) for part, own in owners(module) if getattr(part, own).ndim == 2]
    for part, own in matrices:
        parametrizations.weight_norm(part, own)
    torch.testing.assert_close(module(*inputs), expected)
    for part, own in matrices:
        parametrizations.spectral_norm(part, own)
    module(*inputs).square().mean().backward()
    assert all(x.grad is not None for x in module.parameters())


@pytest.mark.parametrize("name", MODULES)
def test_pruning_goes_on_while_training(name: str) -> None:
    module, inputs = made(name)
    moved(module)
    for part, own in owners(module):
        prune.random_unstructured(part, own, 0.5)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    found = []
    for _ in range(2):
        y = module(*inputs)
        found.append(y.detach())
        optimizer.zero_grad()
        y.square().mean().backward()
        optimizer.step()
    assert not torch.equal(*found)
    for part in list(module.modules()):
        for own in [own.removesuffix("_orig") for own in part._parameters if own.endswith("_orig")]:
            assert (getattr(part, f"{own}_orig").grad[getattr(part, f"{own}_mask") == 0] == 0).all()
            prune.remove(part, own)
    module(*inputs)


class Lora(nn.Module):
    """A linear map with an adapter of rank 1 beside it, as PEFT wraps one."""

    def __init__(self, inside: nn.Linear) -> None:
        super().__init__()
        self.inside = inside
        self.down = nn.Parameter(torch.full((1, inside.in_features), 0.1))
        self.up = nn.Parameter(torch.full((inside.out_features, 1), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inside(x) + x @ self.down.T @ self.up.T


@pytest.mark.parametrize("name", ["self", "cross", "feed_forward", "encoder", "decoder", "transformer", "recurrent"])
def test_linear_maps_can_be_wrapped(name: str) -> None:
    module, inputs = made(name)
    moved(module)
    added = copy.deepcopy(module)
    for part in list(module.modules()):
        for child, linear in list(part.named_children()):
            if isinstance(linear, nn.Linear):
                setattr(part, child, Lora(linear.requires_grad_(False)))
    with torch.no_grad():
        for part in added.modules():
            if isinstance(part, nn.Linear):
                part.weight += 0.01
    y = module(*inputs)
    torch.testing.assert_close(y, added(*inputs))
    y.square().mean().backward()
    assert all(x.grad is not None for path, x in module.named_parameters() if path.endswith(("up", "down")))


def test_parts_can_be_tied() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    for tie in (
        lambda m: setattr(m, "key", m.query),
        lambda m: setattr(m.key, "weight", m.query.weight) or setattr(m.key, "bias", m.query.bias),
    ):
        module = SelfAttention(8, 2)
        tie(module)
        untied = SelfAttention(8, 2)
        untied.load_state_dict(module.state_dict())
        torch.testing.assert_close(module(x), untied(x))
        module(x).square().sum().backward()
        untied(x).square().sum().backward()
        torch.testing.assert_close(module.query.weight.grad, untied.query.weight.grad + untied.key.weight.grad)
    model = EncoderDecoder(models.Transformer(13, 13, width=8, heads=2, inner=16, encoder_layers=2, decoder_layers=1))
    model.target_embedding = model.source_embedding
    model.encoder[1] = model.encoder[0]
    model(*TOKENS).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("name", MODULES)
def test_hooks_are_called_and_their_word_counts(name: str) -> None:
    module, inputs = made(name)
    whole = module(*inputs)
    called = set()
    for path, part in module.named_modules():
        part.register_forward_hook(lambda *_, path=path: called.add(path))
    module(*inputs)
    # Lists and dicts of modules are not called.
    lists = nn.ModuleList | nn.ModuleDict
    expected = {path for path, part in module.named_modules() if not isinstance(part, lists)}
    assert called == expected
    if name not in ("learned", "additive", "bilinear"):
        linear = next(part for part in module.modules() if isinstance(part, nn.Linear))
        handle = linear.register_forward_hook(lambda module, x, y: y + 1)
        assert not torch.allclose(module(*inputs), whole)
        handle.remove()
    torch.testing.assert_close(module(*inputs), whole)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_every_module_gives_its_attended_beside_its_output(name: str) -> None:
    module, inputs = made(name)
    y, seen = module(*inputs, attended=True)
    torch.testing.assert_close(y, module(*inputs))
    if name == "transformer":
        assert {key: len(found) for key, found in seen.items()} == {"encoder": 1, "decoder": 2, "cross": 2}
        arrays = layers.nested({path: x.detach().numpy() for path, x in module.checkpoint_parameters().items()})
        theirs = module.model.attentions(arrays, *(x.numpy() for x in inputs))
    elif name == "recurrent":
        arrays = layers.nested({path: x.detach().numpy() for path, x in module.checkpoint_parameters().items()})
        theirs = module.model.attentions(arrays, *(x.numpy() for x in inputs))
        assert list(seen) == ["cross"]
    else:
        # One for each attention: alone in a module that is one, in a list in a layer.
        found = seen if name in ("encoder", "decoder") else [seen]
        assert len(found) == 1 + (name == "decoder")
        assert all(isinstance(one, overt.Attended) for one in found)
        T, S = inputs[0].shape[-2], inputs[-1].shape[-2]
        assert [tuple(one.weights.shape)[-2:] for one in found][-1] == (T, S)
        for one in found:
            np.testing.assert_allclose(host("", one.weights[...]).sum(-1), 1, atol=1e-5)
        return
    for key, several in theirs.items():
        for ours, other in zip(seen[key], several, strict=True):
            np.testing.assert_allclose(host("", ours.weights[...]), np.asarray(other.weights), atol=1e-5)


@pytest.mark.parametrize("name", ["self", "cross", "additive", "bilinear"])
def test_what_is_attended_is_that_output_while_training_too(name: str) -> None:
    module, inputs = made(name, dropout=0.5)
    module.train()
    y, seen = module(*inputs, attended=True)
    given = seen.output
    if name in ("self", "cross"):
        joined = given.transpose(-2, -3).flatten(-2)
        torch.testing.assert_close(module.output(joined), y)
    else:
        torch.testing.assert_close(given[..., 0, :, :], y)
    y.square().sum().backward()
    assert all(x.grad is not None for x in module.parameters())


def test_masks_reach_every_part() -> None:
    module, (x, z) = made("decoder")
    mask = torch.tensor([True, True, False])
    y, (own, cross) = module(x, z, context_mask=mask, attended=True)
    assert not host("", cross.weights[..., 2]).any()
    assert not np.triu(host("", own.weights[0, 0]), 1).any()
    changed = z.clone()
    changed[:, 2] += 1
    torch.testing.assert_close(module(x, changed, context_mask=mask), y)


def test_sizes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match=r"x has width 7 but the weight \(8, 8\) maps 8"):
        SelfAttention(8, 2)(torch.ones(2, 3, 7))
    with pytest.raises(ArgumentError, match=r"positions 0…9 do not fit a table of 9 rows"):
        LearnedPositions(9, 8)(torch.ones(2, 10, 8))
    with pytest.raises(ArgumentError, match="dropout"):
        FeedForward(8, 16, dropout=-0.1)


@pytest.mark.parametrize("name", MODULES)
def test_checkpointing_gives_the_same_gradients(name: str) -> None:
    module, inputs = made(name, **({} if name == "learned" else {"dropout": 0.5}))
    module.train()
    gradients = []
    for run in (module, lambda *inputs: checkpoint(module, *inputs, use_reentrant=False)):
        module.zero_grad()
        torch.manual_seed(1)
        run(*inputs).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", MODULES)
def test_they_can_be_exported(name: str) -> None:
    module, inputs = made(name)
    program = torch.export.export(module, inputs)
    torch.testing.assert_close(program.module()(*inputs), module(*inputs))


@pytest.mark.parametrize("name", MODULES)
def test_autocast_is_close(name: str) -> None:
    module, inputs = made(name)
    expected = module(*inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = module(*inputs)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.1)
    found.float().square().mean().backward()
    assert all(x.grad is not None and x.grad.dtype == torch.float32 for x in module.parameters())


def test_parameters_that_kernels_have_read_can_be_freed() -> None:
    module, inputs = made("additive")
    module(*inputs).sum().backward()
    for parameter in module.parameters():
        # What FSDP does between two passes.
        parameter.untyped_storage().resize_(0)


def test_sinusoidal_positions_are_those_of_numpy() -> None:
    module = SinusoidalPositions()
    for shape, dtype in (((2, 5, 8), torch.float64), ((7, 8), torch.float32), ((2, 5, 6), torch.float64)):
        found = module(torch.ones(shape, dtype=dtype))
        expected = 1 + overt.positions.sinusoidal(shape[-2], shape[-1])
        np.testing.assert_allclose(found.expand(*shape)[..., :, :].numpy(), np.broadcast_to(expected, shape), atol=1e-6)


@pytest.mark.parametrize("name", MODULES)
def test_an_ensemble_is_mapped_over(name: str) -> None:
    members = [made(name)[0] for _ in range(2)]
    inputs = made(name)[1]
    moved(members[1])
    parameters, buffers = torch.func.stack_module_state(members)
    base = copy.deepcopy(members[0]).to("meta")
    found = torch.func.vmap(lambda parameters: torch.func.functional_call(base, (parameters, buffers), inputs))(
        parameters
    )
    for ours, member in zip(found, members, strict=True):
        torch.testing.assert_close(ours, member(*inputs), rtol=1e-4, atol=1e-5)
