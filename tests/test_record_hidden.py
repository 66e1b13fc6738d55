"""overt.record where attention hides: TorchScript, NumPy, other methods, what a model gives away."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import overt
from overt.errors import RecordingError
from test_record_own import CAUSAL, SCALE, SDPA, Bare, H, Model, Own, W, X, build, by_two, closed, native, plain, scores

pytestmark = pytest.mark.filterwarnings("ignore")


def script(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(x)


HIDDEN_BARE = script(Bare())


@script
def softened(x: Tensor, scale: float) -> Tensor:
    return torch.softmax(x * scale, -1)


@script
def masked(x: Tensor) -> Tensor:
    return x.tril() * 0.5


@script
def attending(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT, -1) @ v


@script
def spelled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = torch.exp(q @ k.mT)
    return (w / w.sum(-1, keepdim=True)) @ v


@script
def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


@script
def mixing(w: Tensor, v: Tensor) -> Tensor:
    return w @ v


@script
def gated(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def test_functions_of_torchscript_that_soften_or_scale_are_followed() -> None:
    model = build(
        lambda q, k, v: softened(q @ k.mT, SCALE) @ v,
        lambda q, k, v: masked(q @ k.mT).softmax(-1) @ v,
        lambda q, k, v: plain(gated(q), k, v),
    )
    with torch.no_grad():
        y, q, k = model(X), *model.layers[0].split(X)[:2]
        with overt.record(model) as rec:
            assert torch.equal(model(X), y)
    assert (rec.names, rec.unseen) == (["layers.0", "layers.1", "layers.2"], {})
    np.testing.assert_allclose(rec["layers.0"].weights, scores(q, k).softmax(-1), atol=1e-6)
    # Nothing of this stays behind.
    assert torch._C.DisableTorchFunction.__module__ == "torch._C"
    assert torch._C.ScriptFunction.__call__.__name__ == "__call__"
    assert not hasattr(torch._C.ScriptFunction.__call__, "__closure__")


def silently(mix: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return mix(q, k, v)

    return run


def in_numpy(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    x = scores(q, k).numpy()
    w = np.exp(x - x.max(-1, keepdims=True))
    return torch.from_numpy(w / w.sum(-1, keepdims=True)) @ v


def in_lists(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.tensor(scores(q, k).softmax(-1).tolist()) @ v


HIDDEN: dict[str, tuple[Callable[..., Tensor], str]] = {
    "TorchScript": (lambda q, k, v: attending(q, k, v), r"it calls TorchScript \(attending\), which shows nothing"),
    "TorchScript by exp": (lambda q, k, v: spelled(q, k, v), r"it calls TorchScript \(spelled\)"),
    "TorchScript's kernel": (lambda q, k, v: fused(q, k, v), r"it calls TorchScript \(fused\)"),
    "TorchScript that mixes": (
        lambda q, k, v: mixing(scores(q, k).softmax(-1), v),
        "after its softmax, mixing changes its weights",
    ),
    "a module of TorchScript in no list of modules": (
        lambda q, k, v: HIDDEN_BARE(q),
        r"it calls TorchScript \(forward\)",
    ),
    "without functions": (silently(plain), "it calls aten::_?softmax under DisableTorchFunction"),
    "a kernel without functions": (
        silently(SDPA),
        "it calls aten::_?scaled_dot_product_.*attention.* under DisableTorchFunction",
    ),
    "exp without functions": (silently(by_two), "it calls aten::exp2 under DisableTorchFunction"),
    "NumPy": (in_numpy, "what it makes of its scores leaves torch by numpy"),
    "lists": (in_lists, "what it makes of its scores leaves torch by tolist"),
}


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_is_hidden_is_named_beside_what_is_seen(name: str, mode: Any) -> None:
    mix, why = HIDDEN[name]
    model = build(plain, mix)
    with mode():
        y = model(X)
        message = rf"could not follow 1 .*and recorded 1: layers\.1: {why}"
        with pytest.raises(RecordingError, match=message), overt.record(model):
            assert torch.equal(model(X), y)
        with overt.record(model, layers="layers.0") as rec:
            model(X)
    assert rec.names == ["layers.0"]


def test_numbers_that_leave_torch_are_said_to() -> None:
    def away(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.from_numpy(overt.attention(q.numpy(), k.numpy(), v.numpy()))

    model = build(plain, away)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without) == (["layers.0"], [])
    assert rec.unseen == {"layers.1": "numbers of it leave torch by numpy"}
    assert "not seen into: layers.1 (numbers of it leave torch by numpy)" in str(rec)
    model = build(away)
    message = r"nothing was recorded: .*not seen into: layers\.0 \(numbers of it leave torch by numpy\)"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model(X)


def looked_at(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    x = scores(q, k)
    _seen = x.detach().numpy().max(), x.logsumexp(-1).mean()
    w = x.masked_fill(~CAUSAL, -torch.inf).softmax(-1)
    _kept = w.cpu().numpy(), w.mean(1).tolist(), (w * w.clamp(1e-9).log()).sum(-1)
    return w @ v


def test_scores_and_weights_may_be_looked_at_beside() -> None:
    model = build(looked_at, plain)
    with torch.no_grad():
        y = model(X)
        with overt.record(model) as rec:
            assert torch.equal(model(X), y)
        q, k, _ = model.layers[0].split(X)
    assert rec.names == ["layers.0", "layers.1"]
    expected = scores(q, k).masked_fill(~CAUSAL, -torch.inf).softmax(-1)
    np.testing.assert_allclose(rec["layers.0"].weights, expected, atol=1e-6)
    # What is looked at is no excuse for others' scores.
    model = build(looked_at, in_numpy)
    with torch.no_grad(), pytest.raises(RecordingError, match=r"recorded 1: layers\.1: "), overt.record(model):
        model(X)


@torch.library.custom_op("test_record_own::mix", mutates_args=())
def nameless(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return plain(q, k, v)


def test_a_loop_of_torchs_own_is_told() -> None:
    from torch._higher_order_ops.map import map as each

    model = build(plain, lambda q, k, v: each(lambda x: (x @ x.mT).softmax(-1) @ x, q))
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, rec.without) == (["layers.0"], [])
    assert rec.unseen == {"layers.1": "it calls higher_order::map_impl, an operator of functions"}


def test_memory_that_is_read_past_torch_is_told() -> None:
    def read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        assert q.data_ptr()
        return v

    model = build(plain, read)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert rec.unseen == {"layers.1": "numbers of it leave torch by data_ptr"}


def test_an_operator_of_ones_own_and_an_attention_by_its_name_are_told() -> None:
    class OwnAttention(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.softmax(-1).cumsum(1)

    model = Model(Own(plain), Own(lambda q, k, v: nameless(q, k, v)), OwnAttention())
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert rec.names == ["layers.0"]
    assert rec.unseen == {
        "layers.1": "it calls test_record_own::mix, an operator of somebody's own",
        "layers.2": "an attention by its name, in which none was seen",
    }
    with torch.no_grad(), overt.record(model, layers="layers.[01]") as rec:
        model(X)
    assert list(rec.unseen) == ["layers.1"]


class SelfAttentionOutput(nn.Module):
    """What stands beside an attention, with as many maps as are asked for."""

    def __init__(self, maps: int) -> None:
        super().__init__()
        self.maps, self.norm = nn.ModuleList(nn.Linear(W, W) for _ in range(maps)), nn.LayerNorm(W)

    def forward(self, x: Tensor) -> Tensor:
        for one in self.maps:
            x = one(x)
        return self.norm(x)


class SelfAttentionLayer(nn.Module):
    def __init__(self, maps: int) -> None:
        super().__init__()
        self.inner, self.output = Own(plain), SelfAttentionOutput(maps)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.inner(x))


@pytest.mark.parametrize(("maps", "unseen"), [(1, []), (2, ["layers.0.output"])])
def test_a_projection_beside_an_attention_is_a_part_of_it(maps: int, unseen: list[str]) -> None:
    model = Model(SelfAttentionLayer(maps)).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert (rec.names, list(rec.unseen)) == (["layers.0.inner"], unseen)


class Methods(Model):
    """What a model does beside its forward."""

    def attend(self, x: Tensor, mix: Callable[..., Tensor] = plain) -> Tensor:
        return mix(*self.layers[0].split(x))

    def fits(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1)

    def loss(self, x: Tensor) -> Tensor:
        return -(x @ x.mT).softmax(-1).log().mean() - (x @ x.mT).exp().mean()


@pytest.mark.parametrize("mix", [plain, SDPA, closed, native])
def test_attention_in_other_methods_is_named(mix: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    model = Methods(Own(plain)).eval()
    message = r"recorded 1: \(model\): it attends in attend\(\), which is not called as a module is"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model.attend(model(X), mix)
    message = r"recorded 0: layers\.0: it attends in forward\(\), which is not called as a module is"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        model.layers[0].forward(X)

    # Attention of somebody else is none of the model's, also where it is given the model.
    def others(model: nn.Module) -> None:
        mix(*model.layers[0].split(X))

    with torch.no_grad(), overt.record(model) as rec:
        model(X)
        others(model)
    assert (rec.names, rec.unseen) == (["layers.0"], {})


def test_nobody_elses_tensors_are_kept_alive() -> None:
    torch.manual_seed(0)
    model = Methods(Own(plain)).eval()

    def use(size: int) -> None:
        large = torch.ones(size)
        large.softmax(-1)
        seen = weakref.ref(large)
        del large
        assert seen() is None

    with torch.no_grad(), overt.record(model):
        model(X)
        use(8)


def test_other_methods_may_do_what_is_no_attention() -> None:
    torch.manual_seed(0)
    model = Methods(Own(plain)).eval()
    for method in (model.fits, model.loss):
        with torch.no_grad(), overt.record(model) as rec:
            method(model(X))
        assert rec.names == ["layers.0"]
        assert rec.unseen == {"": "a softmax of scores in a method that is not called as a module is"}
        assert "not seen into: (model) (a softmax of scores in a method" in str(rec)


class TextsAndImages(nn.Module):
    """Which text fits an image is a softmax of a product; what is done with it beside is told in ``use``."""

    def __init__(self, use: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.encoder, self.use = nn.MultiheadAttention(W, H, batch_first=True), use

    def forward(self, text: Tensor, image: Tensor) -> dict[str, Any]:
        text, image = (self.encoder(x, x, x)[0].mean(1) for x in (text, image))
        fits = (text @ image.mT).softmax(-1)
        return {"beside": self.use(fits, image), "fits": [fits]}


def test_a_softmax_that_is_the_output_of_a_model_is_no_attention_and_is_told() -> None:
    torch.manual_seed(0)
    model = TextsAndImages(lambda fits, image: None).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X, X[:, :5])
    assert rec.names == ["encoder", "encoder#2"]
    assert rec.unseen == {"": "a softmax of scores is part of what the model gives, and mixed nothing seen"}


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda fits, image: sum(a @ b for a, b in zip(fits.chunk(2, -1), image.chunk(2), strict=True)), "chunk"),
        (lambda fits, image: fits.topk(1).values * image, "topk"),
        (lambda fits, image: mixing(fits, image), "mixing"),
        (lambda fits, image: torch.from_numpy(fits.numpy()) @ image, "numpy"),
        (lambda fits, image: fits.sum(0) @ image, "sum"),
    ],
)
def test_weights_that_are_given_away_and_go_on_in_pieces_are_named(use: Callable[..., Any], why: str) -> None:
    torch.manual_seed(0)
    model = TextsAndImages(use).eval()
    with torch.no_grad(), pytest.raises(RecordingError, match=rf"recorded 2: \(model\): .*{why}"), overt.record(model):
        model(X, X[:, :5])


def test_weights_that_are_given_away_and_mix_are_attention() -> None:
    torch.manual_seed(0)
    model = TextsAndImages(lambda fits, image: fits @ image).eval()
    with torch.no_grad(), overt.record(model) as rec:
        model(X, X[:, :5])
    assert (rec.names, rec.unseen) == (["encoder", "encoder#2", ""], {})
