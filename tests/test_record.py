"""overt.record on torch's own modules and on somebody's own code: what is seen, kept, refused."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import overt
from overt.errors import ArgumentError, DtypeError, RecordingError
from overt.torch.record import checking
from overt.torch.record.call import Call
from overt.torch.record.kernel import Tap
from overt.torch.record.measures import measures

B, H, T, D = 2, 4, 9, 8
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Attention(nn.Module):
    """Self-attention of 32 features by any function of q, k and v (B, H, T, D)."""

    def __init__(self, attend: Callable[..., Tensor], heads: int = H, groups: int = H) -> None:
        super().__init__()
        self.attend, self.num_heads = attend, heads
        self.q, self.k, self.v = nn.Linear(32, D * heads), nn.Linear(32, D * groups), nn.Linear(32, D * groups)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(p(x).unflatten(-1, (-1, D)).transpose(1, 2) for p in (self.q, self.k, self.v))  # type: ignore[return-value]

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(*self.project(x)).transpose(1, 2).flatten(2)


class Model(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def build(attend: Callable[..., Tensor], layers: int = 1, **sizes: int) -> Model:
    torch.manual_seed(0)
    return Model(*(Attention(attend, **sizes) for _ in range(layers))).eval()


def weights(model: Model, x: Tensor, mask: Tensor | None = None, bias: Any = 0.0, scale: float = D**-0.5) -> np.ndarray:
    """Of the first layer, by the definition in float64."""
    q, k, _ = (y.detach().double() for y in model.layers[0].project(x))
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = q @ k.mT * scale + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1).numpy()


def recorded(model: nn.Module, *inputs: Tensor, **options: Any) -> tuple[Any, Any]:
    """A recording of one run whose output is, to the bit, that without one."""
    with torch.no_grad():
        plain = model(*inputs)
        with overt.record(model, **options) as rec:
            y = model(*inputs)
    assert torch.equal(plain, y)
    return rec, y


SDPA = functional.scaled_dot_product_attention
CAUSAL = torch.ones(T, T).tril().bool()
X = noise(B, T, 32)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * D**-0.5).softmax(-1) @ v


def by_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhid,bhjd->bijh", q, k) * D**-0.5
    return torch.einsum("bijh,...hjd->bhid".replace("...", "b"), scores.softmax(2), v)


def by_transposed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = functional.softmax(torch.matmul(q, k.mT) * D**-0.5, dim=-1)
    return torch.matmul(v.mT, scores.transpose(-1, -2)).mT


def by_bmm(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    scores = torch.baddbmm(torch.zeros(len(q), T, T), q, k.mT, alpha=D**-0.5)
    mixed = torch.bmm(functional.dropout(functional.softmax(scores, -1), 0.5, False).to(v.dtype), v)
    return mixed.unflatten(0, (B, -1))


def by_flex(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return flex_attention(q, k, v)


@pytest.mark.parametrize("attend", [SDPA, by_hand, by_einsum, by_transposed, by_bmm, by_flex])
def test_every_way_gives_the_weights_of_the_definition(attend: Callable[..., Tensor]) -> None:
    model = build(attend)
    rec, _ = recorded(model, X)
    assert rec.names == ["layers.0"]
    assert rec["layers.0"].weights.shape == (B, H, T, T)
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X), atol=2e-6)
    assert rec["layers.0"].deviation < 1e-5


BIAS = noise(1, H, T, T, seed=7)
FLOATS = torch.where(CAUSAL, BIAS, torch.finfo(torch.float32).min)
OPTIONS = {
    "causal": ({"is_causal": True}, CAUSAL, 0.0),
    "boolean": ({"attn_mask": CAUSAL.flip(0)}, CAUSAL.flip(0), 0.0),
    "holes": ({"attn_mask": noise(B, 1, T, T, seed=3) > -0.3}, noise(B, 1, T, T, seed=3) > -0.3, 0.0),
    "numbers": ({"attn_mask": FLOATS}, CAUSAL, BIAS.double()),
    "few axes": ({"attn_mask": BIAS[0, 0]}, None, BIAS[:, :1].double()),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_masks_and_numbers_that_are_added(option: str) -> None:
    given, mask, bias = OPTIONS[option]
    model = build(lambda q, k, v: SDPA(q, k, v, **given))
    rec, _ = recorded(model, X)
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X, mask, bias), atol=2e-6)
    kept, _ = recorded(model, X, keep="statistics")
    np.testing.assert_allclose(kept["layers.0"].received(), weights(model, X, mask, bias).sum(-2), atol=1e-5)


def test_scale_and_groups() -> None:
    model = build(lambda q, k, v: SDPA(q, k, v, scale=0.5, enable_gqa=True), groups=2)
    rec, _ = recorded(model, X)
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X, scale=0.5), atol=2e-6)
    assert rec["layers.0"].problem.k.shape[1] == 2


def test_queries_that_see_nothing() -> None:
    mask = CAUSAL.clone()
    mask[3] = False
    rec, _ = recorded(build(lambda q, k, v: SDPA(q, k, v, attn_mask=mask).nan_to_num()), X)
    assert (rec["layers.0"].lse[:, :, 3] == -np.inf).all()
    assert not np.asarray(rec["layers.0"].weights)[:, :, 3].any()


LOWEST = torch.finfo(torch.float32).min
# What is added to the scores of a query, by the first of its keys, and by all others.
SWALLOWED = {
    "the lowest number": (LOWEST, LOWEST),
    "it, and nothing": (LOWEST, -torch.inf),
    "near it": (0.9 * LOWEST, LOWEST),
    "large": (-1e30, -1e30),
    "not so large": (-1e4, -1e4),
    "nothing": (-torch.inf, -torch.inf),
}


@pytest.mark.parametrize("keep", ["qk", "statistics", "disk"])
@pytest.mark.parametrize("added", SWALLOWED)
def test_rows_that_numbers_hide_whole_are_what_the_model_made_of_them(added: str, keep: str) -> None:
    mask = torch.zeros(T, T).masked_fill(~CAUSAL, -torch.inf)
    mask[[0, 3, 4, 8], :3], mask[[0, 3, 4, 8], 3:] = (torch.tensor(x) for x in SWALLOWED[added])
    model = build(lambda q, k, v: SDPA(q, k, v, attn_mask=mask))
    rec, y = recorded(model, X, keep=keep)
    seen, (q, k, _) = rec["layers.0"], model.layers[0].project(X)
    expected = (q @ k.mT * D**-0.5 + mask).softmax(-1).nan_to_num().detach()
    np.testing.assert_allclose(seen.received(), expected.sum(-2), atol=1e-5)
    np.testing.assert_allclose(seen.entropy(), -torch.xlogy(expected, expected).sum(-1), atol=1e-5)
    if keep != "statistics":
        np.testing.assert_allclose(seen.weights, expected, atol=1e-6)
    with torch.no_grad(), overt.record(model, compute="overt"):
        np.testing.assert_allclose(model(X), y, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_mask_that_hides_everything_by_numbers_is_a_table_without_warnings(dtype: torch.dtype) -> None:
    model = build(lambda q, k, v: SDPA(q, k, v, attn_mask=torch.full((T, T), torch.finfo(dtype).min, dtype=dtype)))
    rec, _ = recorded(model.to(dtype), X.to(dtype))
    np.testing.assert_allclose(np.asarray(rec["layers.0"].weights).sum(-1), 1, atol=1e-5)
    assert "nan" not in str(rec)
    # Scores add up to half numbers in float32, which has place for both.
    uniform = np.allclose(rec["layers.0"].weights, 1 / T, atol=1e-3)
    assert uniform == (dtype != torch.float16)


@pytest.mark.parametrize(
    "lets", [torch.ones(T, 1).bool(), torch.ones(T, 1).bool().index_fill(0, torch.tensor(4), False)]
)
def test_a_mask_with_one_column_is_one_for_all_keys(lets: Tensor) -> None:
    model = build(lambda q, k, v: SDPA(q, k, v, attn_mask=lets))
    rec, _ = recorded(model, X)
    expected = np.where(lets.numpy(), weights(model, X), 0)
    np.testing.assert_allclose(rec["layers.0"].weights, expected, atol=2e-6)


def test_flex_with_functions() -> None:
    def near(b: Any, h: Any, t: Any, s: Any) -> Any:
        return (t >= s) & (t - s < 4)

    mask = create_block_mask(near, None, None, T, T, device="cpu")
    dense = CAUSAL & ~CAUSAL.tril(-4)
    model = build(lambda q, k, v: flex_attention(q, k, v, block_mask=mask, enable_gqa=True), groups=2)
    rec, _ = recorded(model, X)
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X, dense), atol=2e-6)
    slopes = torch.arange(1.0, H + 1)

    def alibi(score: Any, b: Any, h: Any, t: Any, s: Any) -> Any:
        return torch.tanh(score) - slopes[h] * (t - s).abs()

    rec, _ = recorded(build(lambda q, k, v: flex_attention(q, k, v, score_mod=alibi)), X)
    assert rec["layers.0"].deviation < 1e-5


@pytest.mark.parametrize("shape", [(T, D), (3, T, D), (2, 3, H, T, D)])
def test_axes_other_than_four(shape: tuple[int, ...]) -> None:
    class Bare(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return SDPA(q, k, v)

    q, k, v = (noise(*shape, seed=i) for i in range(3))
    rec, _ = recorded(Bare(), q, k, v)
    expected = (q @ k.mT * D**-0.5).softmax(-1)
    np.testing.assert_allclose(np.asarray(rec[""].weights).reshape(expected.shape), expected, atol=2e-6)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multi_head_attention(need_weights: bool, batch_first: bool) -> None:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(32, H, batch_first=batch_first).eval()
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[1, 6:] = True
    x = X if batch_first else X.transpose(0, 1)
    with torch.no_grad():
        y, expected = model(x, x, x, key_padding_mask=padding, average_attn_weights=False)
        with overt.record(model) as rec:
            z, _ = model(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    np.testing.assert_allclose(z, y, atol=1e-6)
    np.testing.assert_allclose(rec[""].weights, expected, atol=2e-6)


def test_torchs_own_transformer() -> None:
    torch.manual_seed(0)
    model = nn.Transformer(32, H, 2, 2, 48, batch_first=True).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X, noise(B, 5, 32, seed=1), tgt_mask=nn.Transformer.generate_square_subsequent_mask(5))
    assert rec.names == [
        "encoder.layers.0.self_attn",
        "encoder.layers.1.self_attn",
        "decoder.layers.0.self_attn",
        "decoder.layers.0.multihead_attn",
        "decoder.layers.1.self_attn",
        "decoder.layers.1.multihead_attn",
    ]
    assert rec["decoder.layers.0.multihead_attn"].weights.shape == (B, H, 5, T)
    assert not np.triu(np.asarray(rec["decoder.layers.1.self_attn"].weights), 1).any()


LAST = torch.arange(T) > torch.tensor([[T], [5]])
ENCODERS: dict[str, tuple[dict[str, Any], Callable[[nn.Module], Any]]] = {
    "padding": ({}, lambda model: model(X, src_key_padding_mask=LAST)),
    "by position": ({}, lambda model: model(X, None, LAST)),
    "as numbers": ({}, lambda model: model(X, src_key_padding_mask=torch.zeros(B, T).masked_fill(LAST, -torch.inf))),
    "on the left": ({}, lambda model: model(X, src_key_padding_mask=LAST.flip(1))),
    "a mask too": ({}, lambda model: model(X, mask=~CAUSAL, src_key_padding_mask=LAST)),
    "not nested": ({"enable_nested_tensor": False}, lambda model: model(X, src_key_padding_mask=LAST)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("kind", ENCODERS)
def test_padding_comes_out_of_an_encoder_as_without_a_recording(kind: str, norm: bool) -> None:
    options, run = ENCODERS[kind]
    torch.manual_seed(0)
    last = nn.LayerNorm(32) if norm else None
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, H, 48, batch_first=True), 2, last, **options).eval()
    if last is not None:
        nn.init.normal_(last.bias)
    with torch.no_grad():
        plain = run(model)
        with overt.record(model) as rec:
            y = run(model)
    np.testing.assert_allclose(y, plain, atol=2e-6)
    assert rec.names == ["layers.0.self_attn", "layers.1.self_attn"]
    # Where gradients flow torch takes nothing out, and neither does a recording.
    plain = run(model)
    with overt.record(model):
        assert torch.equal(run(model), plain)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("whole", [False, True])
def test_padding_in_what_was_compiled_stays_where_it_is(whole: bool) -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, H, 48, batch_first=True), 1).eval()
    model = torch.compile(encoder, backend="eager") if whole else nn.Sequential(encoder)
    if not whole:
        encoder.compile(backend="eager")
    run = (lambda: model(X, src_key_padding_mask=LAST)) if whole else (lambda: encoder(X, src_key_padding_mask=LAST))
    with torch.no_grad():
        plain = run()
        with overt.record(model):
            y = run()
    np.testing.assert_allclose(y, plain, atol=2e-6)


def test_two_attentions_in_one_module_are_numbered() -> None:
    rec, _ = recorded(build(lambda q, k, v: SDPA(SDPA(q, k, v), k, v)), X)
    assert rec.names == ["layers.0", "layers.0#2"]


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        ("layers.1", ["layers.1"]),
        ("*.[02]", ["layers.0", "layers.2"]),
        (["layers.0", "*1"], ["layers.0", "layers.1"]),
        (lambda name: name > "layers.0", ["layers.1", "layers.2"]),
    ],
)
def test_layers_are_chosen(layers: Any, names: list[str]) -> None:
    rec, _ = recorded(build(SDPA, 3), X, layers=layers)
    assert rec.names == list(rec) == names
    assert len(rec) == len(names)
    assert names[0] in rec
    assert "nonsense" not in rec


def test_all_ways_to_keep_say_the_same(tmp_path: Path) -> None:
    model = build(lambda q, k, v: SDPA(q, k, v, is_causal=True), 2)
    whole = weights(model, X, CAUSAL)
    for keep, options in (("qk", {}), ("disk", {}), ("disk", {"folder": tmp_path}), ("statistics", {"top": 3})):
        rec, _ = recorded(model, X, keep=keep, **options)
        seen = rec["layers.0"]
        np.testing.assert_allclose(seen.received(), whole.sum(-2), atol=1e-5)
        np.testing.assert_allclose(seen.entropy(), -(whole * np.log(np.where(whole > 0, whole, 1))).sum(-1), atol=1e-5)
        indices, heaviest = seen.top(3)
        np.testing.assert_allclose(heaviest, np.sort(whole, -1)[..., :-4:-1], atol=1e-5)
        np.testing.assert_allclose(np.take_along_axis(whole, indices, -1), heaviest, atol=1e-5)
    assert len(list(tmp_path.iterdir())) == 4


def test_what_was_not_kept_is_refused_in_words() -> None:
    model = build(SDPA)
    rec, _ = recorded(model, X, keep="statistics", top=2)
    for ask in (lambda s: s.weights, lambda s: s.map(2, 2)):
        with pytest.raises(RecordingError, match=r'layers\.0: only statistics were kept.*keep="qk"'):
            ask(rec["layers.0"])
    with pytest.raises(RecordingError, match="record with top=3"):
        rec["layers.0"].top(3)
    with pytest.raises(ArgumentError, match="top"):
        rec["layers.0"].top(0)
    with pytest.raises(RecordingError, match="output was not kept"):
        _ = rec["layers.0"].output
    with pytest.raises(RecordingError, match="gradient"):
        rec["layers.0"].gradient(np.ones(3))
    with pytest.raises(ArgumentError, match=r"nothing was recorded under 'layers\.9'; the names are layers\.0"):
        rec["layers.9"]


def test_runs_that_do_not_continue_one_another_make_no_matrix() -> None:
    model = build(SDPA)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
        model(X[:, :5])
    assert [seen.weights.shape for seen in rec.calls("layers.0")] == [(B, H, T, T), (B, H, 5, 5)]
    with pytest.raises(RecordingError, match=r"2 times.*\(9 × 9, 5 × 5\).*rec\.calls"):
        rec["layers.0"]


def tolerance(dtype: torch.dtype) -> float:
    """How far weights are off: torch's kernels round the lse of half types, by the processor more or less."""
    return 2e-4 if dtype.itemsize == 2 else 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    model = build(lambda q, k, v: SDPA(q, k, v, is_causal=True), 2).to(dtype)
    x = X.to(dtype)
    rec, _ = recorded(model, x)
    off = tolerance(dtype)
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, x, CAUSAL), atol=off)
    kept, _ = recorded(model, x, keep="statistics")
    np.testing.assert_allclose(kept["layers.0"].received(), weights(model, x, CAUSAL).sum(-2), rtol=off)


def test_overts_kernel_in_place_of_the_models() -> None:
    model = build(lambda q, k, v: SDPA(q, k, v, is_causal=True, enable_gqa=True), 2, groups=2)
    with torch.no_grad():
        plain = model(X)
        with overt.record(model, compute="overt", keep="statistics") as rec:
            y = model(X)
        assert not torch.equal(plain, y)
        np.testing.assert_allclose(y, plain, atol=1e-5)
        np.testing.assert_allclose(rec["layers.0"].received(), weights(model, X, CAUSAL).sum(-2), atol=1e-5)
    with pytest.raises(RecordingError, match=r"layers\.0.*no_grad"), overt.record(model, compute="overt"):
        model(X)
    dropping = build(lambda q, k, v: SDPA(q, k, v, dropout_p=0.5))
    for other, x, message in (
        (dropping, X, r"layers\.0: .*drops nothing: call model\.eval"),
        (build(SDPA).to("meta"), X.to("meta"), r"layers\.0: .*is for the CPU, and the model is on meta"),
    ):
        with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(other, compute="overt"):
            other(x)


def test_training_and_gradients() -> None:
    model = build(SDPA, 2).train()
    model(X).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with overt.record(model) as rec:
        model(X).sum().backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), expected, strict=True))
    assert len(rec) == 2


def test_what_gradients_need_again_is_recorded_once() -> None:
    class Checkpointed(Model):
        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
            return x

    model = Checkpointed(*(Attention(SDPA) for _ in range(2)))
    with overt.record(model) as rec:
        model(X).sum().backward()
    assert [len(rec.calls(name)) for name in rec] == [1, 1]


def test_dropout_is_not_in_the_weights() -> None:
    for attend in (
        lambda q, k, v: SDPA(q, k, v, dropout_p=0.5),
        lambda q, k, v: functional.dropout((q @ k.mT * D**-0.5).softmax(-1), 0.5) @ v,
    ):
        model = build(attend)
        with overt.record(model) as rec:
            model(X)
        np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X), atol=2e-6)
        assert rec["layers.0"].deviation is None


@pytest.mark.filterwarnings("ignore")
def test_inference_mode_autocast_and_compiled_models() -> None:
    model = build(SDPA, 2)
    with torch.inference_mode():
        plain = model(X)
        with overt.record(model) as rec:
            assert torch.equal(model(X), plain)
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X), atol=2e-6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        plain = model(X)
        with overt.record(model) as rec:
            assert torch.equal(model(X), plain)
    assert rec["layers.0"].problem.q.dtype.name in ("bfloat16", "float32")
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X), atol=2e-2)
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        plain = compiled(X)
        with overt.record(compiled) as rec:
            assert torch.equal(compiled(X), plain)
    assert rec.names == ["layers.0", "layers.1"]
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X), atol=2e-6)


@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "groups", "narrow values", "float64", "bfloat16"])
def test_in_inference_mode_the_models_own_kernel_says_its_lse(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        options: dict[str, Any] = {"is_causal": kind == "causal", "enable_gqa": kind == "groups"}
        if kind == "mask":
            options["attn_mask"] = torch.ones(q.shape[2], k.shape[2]).tril().bool()
        if kind == "groups":
            k, v = k[:, :1], v[:, :1]
        if kind == "narrow values":
            return torch.cat([SDPA(q, k, v[..., :3], **options), v[..., 3:]], -1)
        return SDPA(q, k, v, **options)

    dtype = getattr(torch, kind) if kind in ("float64", "bfloat16") else torch.float32
    model, x = build(mix, 1).to(dtype), X.to(dtype)
    with torch.no_grad():
        plain = model(x)
        with overt.record(model) as expected:
            model(x)
    if kind != "narrow values":
        # A second pass for the lse would be one too many.
        monkeypatch.setattr(checking, "Attended", None)
    with torch.inference_mode(), overt.record(model) as rec:
        assert torch.equal(model(x), plain)
    np.testing.assert_array_equal(rec["layers.0"].lse, expected["layers.0"].lse)


def test_nested_recordings_see_their_own_models() -> None:
    one, two = build(SDPA), build(by_hand, 2)
    with torch.no_grad(), overt.record(one) as outer:
        with overt.record(two) as inner:
            one(X)
            two(X)
        one(X)
        with overt.record(one) as again:
            one(X)
    assert (len(outer.calls("layers.0")), len(outer), len(inner), len(again)) == (3, 1, 2, 1)


def test_everything_is_left_as_it_was() -> None:
    model = build(SDPA, 2)
    with pytest.raises(ZeroDivisionError), overt.record(model):
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="mat1"), overt.record(model):
        model(X[..., :3])
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    rec, _ = recorded(model, X)
    assert len(rec) == 2
    with pytest.raises(RecordingError, match="runs once"), rec:
        pass


def test_copies_of_a_recorded_model_are_models() -> None:
    model = build(SDPA)
    with torch.no_grad(), overt.record(model) as rec:
        y = model(X)
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        assert all(torch.equal(other(X), y) for other in copies)
    assert all(torch.equal(other(X), y) for other in copies)
    assert len(rec.calls("layers.0")) == 1


@pytest.mark.parametrize("attend", [SDPA, by_hand])
def test_what_was_recorded_goes_with_the_recording(attend: Callable[..., Tensor]) -> None:
    rec, _ = recorded(build(attend, 2), X)
    link = rec._chains["layers.0"][0].links[0]
    held = weakref.ref(link.q or link.weights)
    del link
    gc.disable()
    try:
        del rec
        assert held() is None
    finally:
        gc.enable()


def test_nothing_recorded_is_an_error() -> None:
    with pytest.raises(RecordingError, match="nothing was recorded: no attention of the model ran"):
        recorded(nn.Linear(32, 32), X)
    with pytest.raises(RecordingError, match=r"layers= chose none of layers\.0"):
        recorded(build(SDPA), X, layers="*.attention")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda w: functional.pad(w, (0, 0)), "pad"),
        (lambda w: w + 0.1, "add"),
        (lambda w: functional.linear(w.permute(0, 2, 3, 1), torch.ones(H, H) / H).permute(0, 3, 1, 2), "linear"),
    ],
)
def test_what_cannot_be_followed_is_named(change: Callable[[Tensor], Tensor], name: str) -> None:
    model = build(SDPA, 1)
    model.layers.append(Attention(lambda q, k, v: change((q @ k.mT).softmax(-1)) @ v))
    with pytest.raises(RecordingError, match=rf"layers\.1: after its softmax, _*{name}") as caught:
        recorded(model, X)
    assert "layers.0" not in str(caught.value)
    rec, _ = recorded(model, X, layers="layers.0")
    assert rec.names == ["layers.0"]


def in_pieces(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = (q @ k.mT).softmax(-1)
    return w[..., :4] @ v[:, :, :4] + w[..., 4:] @ v[:, :, 4:]


def upon_itself(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = (q @ k.mT).softmax(-1)
    return (w @ w) @ v


def spelled_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    return torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True)) @ v


def unused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    (q @ k.mT).softmax(-1)
    return v


def gathered(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1).gather(-1, torch.arange(T).flip(0).expand(B, H, T, T)) @ v.flip(2)


@pytest.mark.parametrize(
    ("attend", "message"),
    [
        (in_pieces, "after its softmax, _*r?matmul"),
        (upon_itself, "after its softmax, _*r?matmul"),
        (spelled_out, "it spells out its softmax by exp"),
        (gathered, "after its softmax, gather"),
        (unused, "after its softmax, its weights met no values"),
    ],
)
def test_weights_that_no_product_shows_whole_are_named(attend: Callable[..., Tensor], message: str) -> None:
    with pytest.raises(RecordingError, match=rf"could not follow 1 .*layers\.0: {message}"):
        recorded(build(attend), X)


def test_a_softmax_of_something_else_is_nobodys_attention() -> None:
    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            return x * self.gate(x).softmax(-1).max(-1, keepdim=True).values

    rec, _ = recorded(Model(Attention(SDPA), Router()), X)
    assert rec.names == ["layers.0"]
    assert rec.without == ["layers.1"]


def test_another_thread_is_named() -> None:
    model = build(SDPA)

    def elsewhere() -> None:
        thread = threading.Thread(target=model, args=(X,))
        thread.start()
        thread.join()

    def everywhere() -> None:
        model(X)
        elsewhere()

    for run in (elsewhere, everywhere):
        with pytest.raises(RecordingError, match=r"another thread \(.*run it in the thread that entered"):
            recorded_by(run, model)


def recorded_by(run: Callable[[], Any], model: nn.Module) -> Any:
    with torch.no_grad(), overt.record(model) as rec:
        run()
    return rec


def test_vmap_is_named() -> None:
    model = build(lambda q, k, v: torch.vmap(SDPA)(q, k, v))
    with pytest.raises(RecordingError, match=r"layers\.0: it runs inside torch\.func"):
        recorded(model, X)


def test_memory_that_was_written_over_is_an_error() -> None:
    class Reusing(Attention):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.project(x)
            q, k = q.clone(), k.clone()
            y = SDPA(q, k, v)
            k.zero_()
            return y.transpose(1, 2).flatten(2)

    model = Model(Reusing(SDPA))
    rec, _ = recorded(model, X)
    with pytest.raises(RecordingError, match=r"layers\.0: the model has written over"):
        rec["layers.0"]
    rec, _ = recorded(model, X, keep="disk")
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X), atol=2e-6)
    with torch.inference_mode(), overt.record(model) as rec:
        model(X)
    np.testing.assert_allclose(rec["layers.0"].weights, weights(model, X), atol=2e-6)


@pytest.mark.parametrize("keep", ["statistics", "qk", "disk"])
def test_the_limit_holds_before_memory_is_spent(keep: str) -> None:
    model = build(SDPA, 4)
    with torch.no_grad():
        with overt.record(model, keep=keep, layers="layers.0") as rec:
            model(X)
        need = rec.nbytes
        assert need > 0
        with overt.record(model, keep=keep, limit=4 * need + 64 * 4 * 4) as rec:
            model(X)
        assert rec.nbytes == 4 * need
        with (
            pytest.raises(RecordingError, match=r"layers\.[12]: recording it takes [\d,]+ bytes.*raise limit="),
            overt.record(model, keep=keep, limit=2 * need),
        ):
            model(X)


def test_arguments_that_make_no_sense() -> None:
    model = build(SDPA)
    with pytest.raises(DtypeError, match=r"torch\.nn\.Module, not builtin"):
        overt.record(SDPA)
    for options, message in (
        ({"keep": "all"}, "keep must be one of statistics, qk, disk"),
        ({"compute": "cuda"}, "compute must be"),
        ({"top": -1}, "top"),
        ({"limit": 1.5}, "limit"),
        ({"folder": "/tmp"}, 'folder is for keep="disk"'),
        ({"keep": "disk", "folder": "/nowhere/at/all"}, "is no folder"),
    ):
        with pytest.raises(ArgumentError, match=message):
            overt.record(model, **options)
    with pytest.raises(DtypeError, match="layers must be a glob"):
        overt.record(model, layers=[1])


def test_the_table() -> None:
    rec, _ = recorded(build(lambda q, k, v: SDPA(q, k, v, is_causal=True), 2), X)
    lines = str(rec).splitlines()
    assert lines[0].split()[:3] == ["name", "way", "heads"]
    assert lines[1].split()[:6] == ["layers.0", "sdpa", "4", "9", "×", "9"]
    assert "Recording(2 attentions, 2 calls)" in repr(rec)
    share = np.asarray(rec["layers.0"].weights)[..., 0].mean()
    assert f"{share:.1%}" in lines[1]


def test_no_other_package_is_imported() -> None:
    code = """
import sys, torch, overt
model = torch.nn.MultiheadAttention(8, 2)
x = torch.ones(3, 1, 8)
with overt.record(model) as rec:
    model(x, x, x)
assert rec.names == [""], rec.names
assert "transformers" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


DEVICES = {
    "plain": (lambda q, k, v: SDPA(q, k, v), {}),
    "causal": (lambda q, k, v: SDPA(q, k, v, is_causal=True), {}),
    "holes": (lambda q, k, v: SDPA(q, k, v, attn_mask=OPTIONS["holes"][0]["attn_mask"]), {}),
    "numbers": (lambda q, k, v: SDPA(q, k, v, attn_mask=FLOATS.to(q.dtype)), {}),
    "groups": (lambda q, k, v: SDPA(q, k, v, enable_gqa=True), {"groups": 2}),
    "no lse": (lambda q, k, v: SDPA(q, k, v[..., :3], attn_mask=CAUSAL), {}),
    "by hand": (by_hand, {}),
}


@pytest.mark.parametrize("case", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_other_devices_get_the_same_by_blocks(case: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a device would run, forced on the CPU: blocks of rows in torch in place of the kernels."""
    attend, sizes = DEVICES[case]

    class Widths(Attention):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (y.to(dtype) for y in self.project(x))
            return self.attend(q, k, v).float().mean((1, 3))[..., None].expand_as(x)

    torch.manual_seed(0)
    model = Model(Widths(attend, **sizes)).eval()
    options: dict[str, Any] = {"keep": "statistics", "top": 3}
    expected, _ = recorded(model, X, **options)
    monkeypatch.setattr(Call, "near", False)
    found, _ = recorded(model, X, **options)
    a, b = expected["layers.0"], found["layers.0"]
    off = tolerance(dtype)
    np.testing.assert_allclose(b.lse, a.lse, atol=off)
    np.testing.assert_allclose(b.received(), a.received(), atol=off)
    np.testing.assert_allclose(b.entropy(), a.entropy(), atol=off)
    np.testing.assert_array_equal(b.top(3)[0], a.top(3)[0])
    for name in ("previous", "induction"):
        np.testing.assert_allclose(getattr(measures(b), name), getattr(measures(a), name), atol=off)


def test_statistics_stay_on_the_device_until_somebody_asks() -> None:
    """Nothing can be copied from ``meta``, so nothing was."""
    model = build(lambda q, k, v: SDPA(q, k, v, is_causal=True), layers=2).to("meta")
    with torch.no_grad(), overt.record(model, keep="statistics", top=2, check=False) as rec:
        model(X.to("meta"))
    held = rec._chains["layers.1"][0].links[0].statistics
    assert held is not None
    assert held.top is not None
    for x in (held.received, held.entropy, held.previous, *held.top):
        assert x.device.type == "meta"
    assert rec.nbytes > 0
    with pytest.raises(NotImplementedError, match="meta"):
        rec["layers.1"].received()
    message = r"the numbers of the queries of layers\.0 are read here, and a tensor on meta has none"
    with torch.no_grad(), pytest.raises(ArgumentError, match=message), overt.record(model, keep="statistics"):
        model(X.to("meta"))


TAPPED: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "booleans": {"attn_mask": torch.arange(T) <= torch.arange(T)[:, None]},
    "numbers": {"attn_mask": torch.linspace(-3, 3, T * T).view(T, T)},
    "groups": {"enable_gqa": True},
    "autocast": {},
    "gradients": {},
}


@pytest.mark.parametrize("case", TAPPED)
def test_a_tap_changes_no_bit_and_hears_the_lse(case: str) -> None:
    options = TAPPED[case]
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, T, H, 8, generator=generator).transpose(1, 2) for _ in range(3))
    if case == "groups":
        k, v = k[:, : H // 2], v[:, : H // 2]
    q.requires_grad_(case == "gradients")
    tap = Tap()
    with torch.autocast("cpu", enabled=case == "autocast"):
        expected, found = SDPA(q, k, v, **options), tap.run(SDPA, (q, k, v), options)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)
    assert found.requires_grad == expected.requires_grad
    scores = q.detach().double() @ k.repeat_interleave(H // k.shape[1], 1).mT.double() * options.get("scale", 8**-0.5)
    mask = TAPPED["booleans"]["attn_mask"] if case == "causal" else options.get("attn_mask")
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    assert tap.lse is not None
    torch.testing.assert_close(
        tap.lse.double(), scores.logsumexp(-1), rtol=1e-5, atol=2e-2 if case == "autocast" else 1e-5
    )
