"""overt.record: beams of encoder–decoders, which all look at one memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import overt
from overt.errors import RecordingError

transformers = pytest.importorskip("transformers")
BEAMS, CROSS = 3, ["*EncDecAttention", "*encoder_attn"]
CONFIGS = {
    "T5": {"d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    "Bart": {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "forced_eos_token_id": None,
    },
}


def build(name: str) -> Any:
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(vocab_size=20, eos_token_id=None, pad_token_id=0, **CONFIGS[name])
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.copy_(torch.randn_like(p) * 0.4)
    return model


@pytest.mark.parametrize("texts", [1, 2])
@pytest.mark.parametrize("layers", [None, CROSS])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_row_is_of_one_beam(name: str, layers: Any, texts: int) -> None:
    model, x = build(name), torch.arange(3, 3 + 7 * texts).reshape(texts, 7)
    with torch.no_grad():
        with overt.record(model, layers=layers) as rec:
            written = model.generate(x, num_beams=BEAMS, num_return_sequences=BEAMS, max_new_tokens=8, do_sample=False)
        with overt.record(model, layers=layers, keep="statistics") as kept:
            model.generate(x, num_beams=BEAMS, max_new_tokens=8, do_sample=False)
        model.set_attn_implementation("eager")
        given = model(x.repeat_interleave(BEAMS, 0), decoder_input_ids=written[:, :-1], output_attentions=True)
    cross = [key for key in rec if "EncDec" in key or "encoder_attn" in key]
    own = [key for key in rec if "decoder" in key and key not in cross]
    expected = [*given.cross_attentions, *(given.decoder_attentions if own else ())]
    for key, weights in zip([*cross, *own], expected, strict=True):
        found = np.asarray(rec[key].weights)
        # Beams end in another order than they are returned in.
        rows = [min(range(len(found)), key=lambda b, row=row: np.abs(found[b] - row).max()) for row in weights.numpy()]
        np.testing.assert_allclose(found[rows], weights, atol=1e-5)
        np.testing.assert_allclose(kept[key].entropy(), rec[key].entropy(), atol=1e-5)


class Reader(nn.Module):
    """Attention to a memory, of rows that change places."""

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, memory, memory)


def test_where_nothing_tells_which_beam_goes_on_nothing_is_guessed() -> None:
    torch.manual_seed(0)
    model, memory = Reader(), torch.randn(1, 2, 5, 4).expand(BEAMS, -1, -1, -1)
    with overt.record(model) as rec:
        for _ in range(3):
            model(torch.randn(BEAMS, 2, 1, 4), memory)
    assert len(rec.calls("")) == 3
    with pytest.raises(RecordingError, match=r"or not with certainty .* ask rec\.calls\(''\)"):
        rec[""]
