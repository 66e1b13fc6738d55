"""overt.torch.nn against torch.nn: the same arguments, the same numbers, the same state dict."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import nn

import overt
from overt.errors import ArgumentError, ShapeError
from overt.torch.nn import MultiheadAttention, swap

N, L, S, E, H = 2, 5, 6, 8, 2


def pair(**options: Any) -> tuple[nn.MultiheadAttention, MultiheadAttention]:
    """Both modules with the same parameters, none of them 0."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(E, H, **options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) / 3)
    ours = MultiheadAttention(E, H, **options)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return theirs, ours


def inputs(batched: bool, first: bool, same: bool, **widths: int) -> list[torch.Tensor]:
    """query, key and value, the same for self-attention."""
    torch.manual_seed(1)
    batch = (lambda n: (N, n) if first else (n, N)) if batched else (lambda n: (n,))
    if same:
        x = torch.randn(*batch(L), E, dtype=torch.float64, requires_grad=True)
        return [x, x, x]
    sizes = (L, E), (S, widths.get("kdim", E)), (S, widths.get("vdim", E))
    return [torch.randn(*batch(n), width, dtype=torch.float64, requires_grad=True) for n, width in sizes]


def masks(kind: str, batched: bool, S: int) -> dict[str, Any]:
    """Masks in torch's meaning that leave every query a key."""
    torch.manual_seed(2)
    hidden = torch.rand(L, S) > 0.6
    each = torch.rand((N if batched else 1) * H, L, S) > 0.6
    padding = torch.zeros((N, S) if batched else (S,), dtype=torch.bool)
    padding[..., -2:] = True
    hidden[:, 0] = each[..., 0] = False
    causal = torch.ones(L, S, dtype=torch.bool).triu(1)

    def floats(mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, -torch.inf, 0.0).double()

    return {
        "none": {},
        "hidden": {"attn_mask": hidden},
        "each": {"attn_mask": each},
        "padding": {"key_padding_mask": padding},
        "both": {"attn_mask": each, "key_padding_mask": padding},
        "floats": {"attn_mask": floats(hidden), "key_padding_mask": floats(padding)},
        "bias": {"attn_mask": torch.randn(L, S).double() + floats(hidden)},
        "causal": {"attn_mask": causal, "is_causal": True},
        "causal and padding": {"attn_mask": causal, "key_padding_mask": padding, "is_causal": True},
    }[kind]


def agree(theirs: Any, ours: Any, arrays: list[torch.Tensor], **options: Any) -> None:
    """Outputs, weights and gradients of inputs and parameters."""
    found = []
    for module in (theirs, ours):
        y, weights = module(*arrays, **options)
        wanted = [*{id(x): x for x in arrays}.values(), *module.parameters()]
        loss = y.sin().sum() + (0 if weights is None else weights.cos().sum())
        found.append([y, weights, *torch.autograd.grad(loss, wanted)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=1e-10)


KINDS = ["none", "hidden", "each", "padding", "both", "floats", "bias", "causal", "causal and padding"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("need_weights", [False, True])
def test_masks_mean_what_they_mean_in_torch(kind: str, need_weights: bool) -> None:
    for first, batched, same, train in itertools.product([False, True], repeat=4):
        theirs, ours = (module.double().train(train) for module in pair(batch_first=first))
        options = {"need_weights": need_weights, **masks(kind, batched, L if same else S)}
        agree(theirs, ours, inputs(batched, first, same), **options)


@pytest.mark.parametrize("kind", ["none", "both", "floats", "causal", "causal and padding"])
@pytest.mark.parametrize(
    "options",
    [
        {"bias": False},
        {"kdim": 3, "vdim": 4},
        {"kdim": 3, "vdim": 4, "bias": False, "add_zero_attn": True},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
    ],
    ids=lambda options: " ".join(options),
)
def test_every_option_of_the_constructor(options: dict[str, Any], kind: str) -> None:
    theirs, ours = (module.double() for module in pair(**options))
    widths = {name: options[name] for name in ("kdim", "vdim") if name in options}
    for need_weights, batched in itertools.product([False, True], repeat=2):
        arrays = inputs(batched, options.get("batch_first", False), False, **widths)
        agree(theirs, ours, arrays, need_weights=need_weights, **masks(kind, batched, S))


@pytest.mark.parametrize("average", [False, True])
def test_weights_are_torchs_and_so_is_their_dropout(average: bool) -> None:
    theirs, ours = (module.double() for module in pair(dropout=0.5, batch_first=True))
    arrays = inputs(True, True, True)
    for options in ({}, {"attn_mask": masks("hidden", True, L)["attn_mask"]}):
        found = []
        for module in (theirs, ours):
            torch.manual_seed(3)
            found.append(module(*arrays, average_attn_weights=average, **options))
        torch.testing.assert_close(*found)
        assert found[1][1].shape == ((N, L, L) if average else (N, H, L, L))


def test_dropout_without_weights_has_the_mean_of_none() -> None:
    theirs, ours = (module.double() for module in pair(dropout=0.5))
    arrays = inputs(True, False, True)
    torch.manual_seed(0)
    mean = torch.stack([ours(*arrays, need_weights=False)[0].detach() for _ in range(600)]).mean(0)
    expected = theirs.eval()(*arrays, need_weights=False)[0]
    assert (mean - expected).abs().max() < 0.3
    assert not torch.equal(*(ours(*arrays, need_weights=False)[0] for _ in range(2)))
    agree(theirs, ours.eval(), arrays, need_weights=False)


def test_a_query_that_sees_nothing_is_as_in_torch() -> None:
    theirs, ours = (module.double() for module in pair())
    arrays = inputs(True, False, False)
    hidden = torch.zeros(L, S, dtype=torch.bool)
    hidden[2] = True
    for mask in (hidden, torch.where(hidden, -torch.inf, 0.0).double(), torch.where(hidden, -torch.inf, 0.3).double()):
        agree(theirs, ours, arrays, attn_mask=mask, need_weights=False)
        assert ours(*arrays, attn_mask=mask)[0][2].isnan().all()


def test_a_mask_that_learns_has_gradients() -> None:
    theirs, ours = (module.double() for module in pair())
    arrays = inputs(True, False, False)
    found = []
    for module in (theirs, ours):
        bias = torch.randn(L, S, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
        y, _ = module(*arrays, attn_mask=bias, need_weights=False)
        found.append(torch.autograd.grad(y.sin().sum(), [bias])[0])
    torch.testing.assert_close(*found)


def test_it_gives_its_attended_like_the_modules() -> None:
    theirs, ours = (module.double() for module in pair(batch_first=True))
    arrays = inputs(True, True, False)
    options = masks("both", True, S)
    y, seen = ours(*arrays, **options, attended=True)
    expected, weights = theirs(*arrays, **options, average_attn_weights=False)
    assert isinstance(seen, overt.Attended)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(torch.as_tensor(seen.weights[...]), weights)


def layers(kind: str, **options: Any) -> tuple[nn.Module, nn.Module]:
    """A layer or stack of torch's, and a copy whose attention was swapped."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(E, H, 16, dropout=0.0, batch_first=True, **options)
    decoder = nn.TransformerDecoderLayer(E, H, 16, dropout=0.0, batch_first=True, **options)
    theirs = {
        "encoder layer": lambda: encoder,
        "decoder layer": lambda: decoder,
        "encoder": lambda: nn.TransformerEncoder(encoder, 2),
        "decoder": lambda: nn.TransformerDecoder(decoder, 2),
        "transformer": lambda: nn.Transformer(E, H, 1, 1, 16, dropout=0.0, batch_first=True, **options),
    }[kind]()
    ours = swap(copy.deepcopy(theirs))
    swapped = [part for part in ours.modules() if isinstance(part, nn.MultiheadAttention)]
    assert {type(part) for part in swapped} == {MultiheadAttention}
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return theirs, ours


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that overt computes."""
    found: list[int] = []
    plain = MultiheadAttention._heads

    def counted(*args: Any) -> Any:
        found.append(1)
        return plain(*args)

    monkeypatch.setattr(MultiheadAttention, "_heads", counted)
    return found


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", ["encoder layer", "decoder layer", "encoder", "decoder", "transformer"])
def test_transformers_of_torch_accept_it(kind: str, norm_first: bool, calls: list[int]) -> None:
    theirs, ours = layers(kind, norm_first=norm_first)
    causal = nn.Transformer.generate_square_subsequent_mask(L)
    padding = torch.zeros(N, L, dtype=torch.bool)
    padding[1, 3:] = True
    x = torch.randn(N, L, E)
    for train, tracked, masked, padded in itertools.product([False, True], repeat=4):
        if kind.startswith("encoder"):
            name = "src_mask" if kind == "encoder layer" else "mask"
            arrays: list[torch.Tensor] = [x]
            options: dict[str, Any] = {name: causal, "is_causal": True} if masked else {}
            # Padding beside a float mask is of floats, as torch wants it.
            hidden = torch.where(padding, -torch.inf, 0.0) if masked else padding
            options |= {"src_key_padding_mask": hidden} if padded else {}
        else:
            arrays = [x, x.flip(1)]
            options = {"tgt_mask": causal, "tgt_is_causal": True} if masked else {}
            options |= {"memory_key_padding_mask": padding} if padded else {}
        count = len(calls)
        with torch.set_grad_enabled(tracked):
            one, other = (module.train(train)(*arrays, **options) for module in (theirs, ours))
        # In eval without gradients torch would go around the module.
        assert len(calls) > count
        torch.testing.assert_close(other, one, rtol=0, atol=2e-6)


def test_one_replaced_attention_is_enough(calls: list[int]) -> None:
    layer = nn.TransformerEncoderLayer(E, H, 16, batch_first=True).eval()
    x = torch.randn(N, L, E)
    with torch.no_grad():
        expected = layer(x)
        new = MultiheadAttention(E, H, batch_first=True)
        new.load_state_dict(layer.self_attn.state_dict())
        layer.self_attn = new
        torch.testing.assert_close(layer(x), expected)
    assert calls


def test_nothing_gives_nothing() -> None:
    theirs, ours = (module.double() for module in pair(batch_first=True))
    for shape in ((0, L, E), (N, 0, E)):
        x = torch.ones(shape, dtype=torch.float64)
        z = torch.ones(shape[0], S, E, dtype=torch.float64)
        torch.testing.assert_close(ours(x, z, z, need_weights=False)[0], theirs(x, z, z, need_weights=False)[0])


def test_copies_resets_and_meta() -> None:
    module = MultiheadAttention(E, H, kdim=3, vdim=4, add_bias_kv=True, device="meta", dtype=torch.float64)
    assert {x.device.type for x in module.parameters()} == {"meta"}
    module = module.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(torch.nan)
    module.reset_parameters()
    assert all(x.isfinite().all() and x.dtype == torch.float64 for x in module.parameters())
    arrays = inputs(True, False, False, kdim=3, vdim=4)
    again = copy.deepcopy(module)
    torch.testing.assert_close(again(*arrays), module(*arrays))
    assert isinstance(module, nn.MultiheadAttention)


def test_what_does_not_fit_is_named() -> None:
    module = MultiheadAttention(E, H, batch_first=True)
    x, z = torch.ones(N, L, E), torch.ones(N, S, E)
    for arguments, options, message in (
        (
            (x, z, z),
            {"attn_mask": torch.ones(S, L, dtype=torch.bool)},
            r"attn_mask has shape \(6, 5\): give \(L, S\) = \(5, 6\)",
        ),
        ((x, z, z), {"key_padding_mask": torch.ones(N, L, dtype=torch.bool)}, r"key_padding_mask has shape \(2, 5\)"),
        ((x, z, z[:, 1:]), {}, "one value a key"),
        ((x, z[:1], z[:1]), {}, "each row of the batch"),
        ((x, z[..., 1:], z), {}, "kdim"),
        ((x[0], z, z), {}, "two axes, or three"),
    ):
        with pytest.raises(ShapeError, match=message):
            module(*arguments, need_weights=False, **options)
    with pytest.raises(ArgumentError, match="is_causal is a hint"):
        module(x, x, x, need_weights=False, is_causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masks_of_half_types_add_up_in_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    ours = MultiheadAttention(E, H, batch_first=True).to(dtype)
    exact = copy.deepcopy(ours).double()
    q, k = torch.randn(N, L, E).to(dtype), torch.randn(N, S, E).to(dtype)
    # Beside a large number, which moves no weight, half types have no room for small ones.
    padding, mask = torch.full((N, S), 512.0), 4 * torch.rand(L, S)
    given = {"key_padding_mask": padding.to(dtype), "attn_mask": mask.to(dtype)}
    wide = {name: x.double() for name, x in given.items()}
    seen = ours(q, k, k, **given, attended=True)[1]
    expected = exact(q.double(), k.double(), k.double(), **wide, attended=True)[1]
    # Projections are rounded to the half type.
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(seen.weights[...].double(), expected.weights[...], rtol=0, atol=tolerance)
