"""overt.record on transformers: implementations of others, and what a recording refuses in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor
from transformers import masking_utils

import overt
from overt.errors import RecordingError
from zoo import GROUPED

transformers.logging.set_verbosity_error()
pytestmark = [pytest.mark.filterwarnings("ignore")]
T = 9
IDS = torch.arange(3, 3 + 2 * T).reshape(2, T)
SDPA = torch.nn.functional.scaled_dot_product_attention


def language_model(implementation: str = "sdpa", **config: Any) -> Any:
    torch.manual_seed(0)
    made = transformers.LlamaConfig(**{**GROUPED, "eos_token_id": None, **config})
    model = transformers.LlamaForCausalLM(made).eval()
    model.set_attn_implementation(implementation)
    return model


def flash(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """As the kernels of flash attention: causal to the last key, padding (B, S), a window that counts the query."""
    t, s = (torch.arange(n) for n in (query.shape[2], key.shape[2]))
    place = t[:, None] + len(s) - len(t)
    sees = (s <= place)[None, None]
    if window := options.get("sliding_window"):
        sees = sees & (s > place - window)
    if mask is not None:
        sees = sees & mask[:, None, None, : len(s)].bool()
    return SDPA(query, key, value, attn_mask=sees, enable_gqa=True).transpose(1, 2), None


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("padded", [False, True])
def test_kernels_that_align_at_the_last_key(padded: bool, window: int | None) -> None:
    transformers.AttentionInterface.register("flash_of_ones_own", flash)
    transformers.AttentionMaskInterface.register("flash_of_ones_own", masking_utils.flash_attention_mask)
    name = "Llama" if window is None else "Mistral"
    torch.manual_seed(0)
    sizes = GROUPED if window is None else GROUPED | {"sliding_window": window}
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**sizes)).eval()
    seen = torch.ones(2, T, dtype=torch.int64)
    if padded:
        seen[0, :3] = 0
    with torch.no_grad():
        with overt.record(model) as expected:
            model(input_ids=IDS, attention_mask=seen)
        # Set by its name, the library would look for a package of that name.
        model.config._attn_implementation_internal = "flash_of_ones_own"
        with overt.record(model) as rec:
            model(input_ids=IDS, attention_mask=seen if padded else None)
    for name in expected:
        np.testing.assert_allclose(rec[name].weights, expected[name].weights, atol=1e-6)


def test_an_implementation_that_does_what_nothing_tells_is_named() -> None:
    def doubled(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
        return 2 * SDPA(query, key, value, attn_mask=mask, enable_gqa=True).transpose(1, 2), None

    transformers.AttentionInterface.register("doubled", doubled)
    message = r"model\.layers\.0\.self_attn: .* and rounding explains .*: it does something that its arguments do not"
    model = language_model("doubled")
    for keep in ("qk", "statistics"):
        with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model, keep=keep):
            model(IDS)


def test_a_layer_that_is_called_by_its_forward_alone_is_named() -> None:
    model = language_model()
    layer = model.model.layers[0].self_attn
    turns = torch.ones(2, T, layer.head_dim), torch.zeros(2, T, layer.head_dim)
    x = torch.ones(2, T, GROUPED["hidden_size"])
    message = r"model\.layers\.0\.self_attn: it attends in a method that is not called as a module is"
    with torch.no_grad(), pytest.raises(RecordingError, match=message), overt.record(model):
        layer.forward(x, position_embeddings=turns, attention_mask=None)


def test_tokens_that_were_taken_back_are_in_no_sum() -> None:
    model, cache = language_model(), transformers.DynamicCache()
    with torch.no_grad(), overt.record(model, keep="statistics") as rec:
        model(IDS[:1, :6], past_key_values=cache)
        model(IDS[:1, 6:9], past_key_values=cache)
        cache.crop(-2)
        model(IDS[1:, :2], past_key_values=cache)
    seen = rec["model.layers.0.self_attn"]
    assert seen.entropy().shape == (1, 4, 9)
    with pytest.raises(RecordingError, match=r"some queries were taken back.*ask rec\.calls\(name\) for each call"):
        seen.received()
    assert [call.received().shape[-1] for call in rec.calls("model.layers.0.self_attn")] == [6, 9, 9]


@pytest.mark.parametrize("keep", ["qk", "statistics"])
def test_weights_that_an_implementation_returns_are_taken_where_they_are_right(keep: str) -> None:
    returned: list[Tensor] = []

    def tilted(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
        k, v = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        weights = (query @ k.mT + torch.arange(key.shape[2])).softmax(-1)
        returned.append(weights)
        return (weights @ v).transpose(1, 2), weights

    transformers.AttentionInterface.register("tilted", tilted)
    model = language_model("tilted")
    with torch.no_grad(), overt.record(model, keep=keep) as rec:
        model(IDS)
    for name, weights in zip(rec, returned, strict=True):
        np.testing.assert_allclose(rec[name].received(), weights.sum(-2), atol=1e-5)
        assert rec[name].deviation < 1e-5
