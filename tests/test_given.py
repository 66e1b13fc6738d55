"""Attention whose weights somebody else has computed: arrays, outputs of models, caches and arguments of others."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

import overt
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.given import given

B, H, T = 1, 4, 12
WORDS = [f"w{i}" for i in range(T)]
W = np.random.default_rng(0).dirichlet(np.ones(T), (B, H, T)).astype(np.float32)


def test_given_weights_are_attention() -> None:
    seen = given(W * 0.8)
    np.testing.assert_allclose(seen.weights, W * 0.8, atol=1e-7)
    np.testing.assert_allclose(seen.received(), (W * 0.8).sum(-2), atol=1e-6)
    np.testing.assert_allclose(seen.top(1)[1], W.max(-1, keepdims=True) * 0.8, atol=1e-7)
    assert given(torch.from_numpy(W).bfloat16()).weights.dtype == np.float32
    assert given(W[0, 0]).weights.shape == (T, T)
    for wrong, error, message in (
        (W[0, 0, 0], ShapeError, r"\(12,\)"),
        (W > 0.1, DtypeError, "bool"),
        (-W, ArgumentError, "after the softmax"),
        (W * np.nan, ArgumentError, "finite"),
        (W * 2, ArgumentError, "sums to 2"),
    ):
        with pytest.raises(error, match=message):
            given(wrong)


class Cache:
    """As TransformerLens keeps what its hooks saw."""

    def __init__(self, cache_dict: dict[str, Tensor]) -> None:
        self.cache_dict = cache_dict


TENSOR = torch.from_numpy(W)
GIVEN: dict[str, tuple[Any, list[tuple[str, int]]]] = {
    "array": (W, [("attention", 0)]),
    "tensor": (TENSOR, [("attention", 0)]),
    "output_attentions": ((TENSOR, TENSOR), [("attention", 0), ("attention", 1)]),
    "generate": (
        # A prompt of eight, and then token by token.
        [[part] * 2 for part in (TENSOR[:, :, :8], *(TENSOR[:, :, t : t + 1] for t in range(8, T)))],
        [("attention", 0), ("attention", 1)],
    ),
    "transformer_lens": (
        Cache({"blocks.1.attn.hook_pattern": TENSOR, "blocks.0.attn.hook_pattern": TENSOR, "hook_embed": TENSOR}),
        [("attention", 0), ("attention", 1)],
    ),
    "output": ({"attentions": (TENSOR,), "logits": TENSOR}, [("attention", 0)]),
    "bertviz": (
        {
            "encoder_attention": [TENSOR],
            "cross_attention": (TENSOR[:, :, :3],),
            "encoder_tokens": WORDS,
            "decoder_tokens": ["a", "b", "c"],
        },
        [("encoder", 0), ("cross", 0)],
    ),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_given_weights_are_shown(kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    x, expected = GIVEN[kind]
    own = kind == "bertviz"
    view = overt.show(x) if own else overt.show(x, tokens=WORDS)
    assert [(part.name, part.layer) for part in view.parts] == expected
    assert "w11" in capsys.readouterr().out
    np.testing.assert_allclose(view.parts[0].seen.weights, W, atol=1e-7)
    assert view.page(tmp_path / "a.html").stat().st_size > 10_000
    if own:
        assert view.parts[1].rows == ("a", "b", "c")


def test_the_page_holds_weights_that_sum_to_less_than_one(tmp_path: Path) -> None:
    from overt.views.labels import Labelled
    from overt.views.stored import Stored

    stored = Stored.of(Labelled(given(W * 0.5)), "float32")
    np.testing.assert_array_equal(stored.lse, 0)
    assert io.BytesIO(overt.show(W * 0.5).page(tmp_path / "a.html").read_bytes())


def test_weights_that_a_fused_kernel_never_returned() -> None:
    for x in ({"attentions": (), "cross_attentions": ()}, {"attention": [None]}, (), (None, None)):
        with pytest.raises(ArgumentError, match=r"overt\.record sees them"):
            overt.show(x, tokens=WORDS)
    with pytest.raises(ArgumentError, match=r"layer 1 of attention holds no weights"):
        overt.show({"attentions": (TENSOR, None)})
    with pytest.raises(DtypeError, match=r"layer 0 of attention is a str"):
        overt.show({"attentions": ("eager",)})
    for x in ({"logits": TENSOR}, {}, [[0.5, 0.5]], torch.nn.Linear(1, 1)):
        with pytest.raises(DtypeError, match=f"show takes .* not {type(x).__name__}"):
            overt.show(x, tokens=WORDS)


SOURCE, TARGET = WORDS[:4], ["a", "b", "c"]


def rows(t: int, s: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(t * s).dirichlet(np.ones(s), (1, 2, t)).astype(np.float32))


KINDS = {"encoder": rows(4, 4), "decoder": rows(3, 3), "cross": rows(3, 4)}


@pytest.mark.parametrize("kind", ["output", "bertviz", "transformer_lens"])
def test_both_sides_of_a_translation_have_their_names(kind: str) -> None:
    if kind == "bertviz":
        own = {"encoder_tokens": SOURCE, "decoder_tokens": TARGET}
        parts = overt.show({f"{name}_attention": (x,) for name, x in KINDS.items()} | own).parts
    else:
        written = {
            "output": {f"{name}_attentions": (x,) for name, x in KINDS.items()},
            "transformer_lens": {
                "encoder.0.attn.hook_pattern": KINDS["encoder"],
                "decoder.0.attn.hook_pattern": KINDS["decoder"],
                "decoder.0.cross_attn.hook_pattern": KINDS["cross"],
            },
        }[kind]
        parts = overt.show(written, tokens=SOURCE, queries=TARGET).parts
    found = {part.name: (list(part.keys or ()), list(part.rows or ())) for part in parts}
    assert found == {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, TARGET), "cross": (SOURCE, TARGET)}


def test_layers_that_a_view_of_bertviz_includes() -> None:
    parts = overt.show({"attention": [rows(4, 4)] * 3, "tokens": SOURCE, "include_layers": [0, 2]}).parts
    assert [part.layer for part in parts] == [0, 2]


@pytest.mark.parametrize("name", ["T5ForConditionalGeneration", "LlamaForCausalLM"])
def test_weights_that_generate_returns_are_one_matrix(name: str) -> None:
    torch.manual_seed(0)
    sizes = {"num_heads": 4, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 2, "decoder_start_token_id": 0}
    if name == "LlamaForCausalLM":
        sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    kind = getattr(transformers, name)
    model = kind(kind.config_class(vocab_size=50, attn_implementation="eager", **sizes)).eval()
    ids = torch.arange(3, 8)[None]
    asked: dict[str, Any] = {"output_attentions": True, "return_dict_in_generate": True, "do_sample": False}
    with torch.no_grad(), overt.record(model) as rec:
        found = model.generate(ids, max_new_tokens=4, min_new_tokens=4, **asked)
    recorded = [np.asarray(rec[key].weights) for key in rec]
    parts = overt.show(found).parts
    assert len(parts) == len(rec)
    for part in parts:
        weights = np.asarray(part.seen.weights)
        same = [x for x in recorded if x.shape == weights.shape]
        assert min(np.abs(x - weights).max() for x in same) < 1e-5
        assert part.prompt in ((None,) if part.name == "encoder" else (1, 5))


def test_steps_of_a_cache_that_slides_are_no_matrix() -> None:
    steps = [(rows(4, 4),), (rows(1, 4),)]
    with pytest.raises(ArgumentError, match=r"the steps of attention have \[4, 4\] keys, .* overt\.record"):
        overt.show(steps)
    # With room to spare for all of them there is no need to slide.
    assert overt.show([(torch.nn.functional.pad(rows(4, 4), (0, 2)),), (rows(1, 6),)]).parts[0].prompt == 4
