"""Whole models of Transformers, with weights at random, hold attention in which no step is wrong."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
import torch

from overt.check.steps.judging import judge
from overt.recorder import record_operations

if find_spec("transformers") is None:
    pytest.skip("Transformers is not installed", allow_module_level=True)

import transformers

S: dict[str, Any] = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 48, "vocab_size": 50,
    "max_position_embeddings": 32,
}  # fmt: skip
N: dict[str, Any] = {"n_embd": 32, "n_head": 4, "n_layer": 1, "vocab_size": 50, "n_positions": 32}
D: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 50, "max_position_embeddings": 32, "pad_token_id": 1,
}  # fmt: skip
V: dict[str, Any] = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 48, "image_size": 16,
    "patch_size": 8,
}  # fmt: skip
T5: dict[str, Any] = {
    "d_model": 32, "d_kv": 8, "num_heads": 4, "num_layers": 1, "d_ff": 48, "vocab_size": 50,
    "decoder_start_token_id": 0,
}  # fmt: skip
# Name, options, how many attentions it holds, and steps that hold in it beside those that hold in all.
MODELS: list[tuple[str, dict[str, Any], int, set[str]]] = [
    ("GPT2", N, 1, {"causal", "scale", "output"}),
    ("Bert", S, 1, {"scale", "merge", "output"}),
    ("Llama", S | {"num_key_value_heads": 2}, 1, {"causal", "groups", "scale", "output"}),
    ("Mistral", S | {"num_key_value_heads": 2, "sliding_window": 3}, 1, {"mask", "groups", "scale"}),
    ("Gemma2", S | {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8}, 1, {"causal", "scale"}),
    ("Bloom", {"hidden_size": 32, "n_head": 4, "n_layer": 1, "vocab_size": 50}, 1, {"causal", "scale"}),
    ("Mpt", {"d_model": 32, "n_heads": 4, "n_layers": 1, "vocab_size": 50, "max_seq_len": 32}, 1, {"causal", "scale"}),
    ("GPTNeoX", S, 1, {"causal", "scale", "output"}),
    ("T5", T5, 3, {"causal", "merge"}),
    ("Bart", D, 3, {"causal", "scale", "output"}),
    ("ViT", V, 1, {"scale", "output"}),
    ("Swin", {"embed_dim": 16, "depths": [2], "num_heads": [2], "image_size": 16, "patch_size": 2, "window_size": 4}, 2,
     {"scale", "mask"}),
]  # fmt: skip


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "sdpa"])
@pytest.mark.parametrize(("name", "options", "count", "more"), MODELS, ids=[m[0] for m in MODELS])
def test_every_step_of_a_model_is_right(
    name: str, options: dict[str, Any], count: int, more: set[str], eager: bool
) -> None:
    if not eager and name in ("Gemma2", "Bloom", "Mpt"):
        # They have no other way than the eager one.
        return
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**options)
    config._attn_implementation = "eager" if eager else "sdpa"
    model = getattr(transformers, f"{name}Model")(config).double().eval()
    # All different, so that a number has one place.
    tokens = 3 + torch.randperm(47)[:12].view(2, 6)
    given: dict[str, Any] = {"input_ids": tokens}
    if count == 3:
        given["decoder_input_ids"] = tokens[:, :4]
    if name in ("ViT", "Swin"):
        given = {"pixel_values": torch.randn(2, 3, 16, 16).double()}
    with torch.no_grad():
        _, operations = record_operations(model, **given)
    judged = judge(operations, [], given={f"parameter {n}": x.shape for n, x in model.named_parameters()})
    assert judged.cores == count
    assert not judged.faults
    held = {entry.step.split(", ")[-1] for entry in judged.ledger if entry.outcome == "held"}
    assert {"scores", "softmax", "mixing", "split"} | more <= held
