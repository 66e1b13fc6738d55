"""Run a GPT-NeoX style state dict without the original framework.

`query_key_value.weight` is [3 * hidden, hidden]; its rows are grouped *per head*:
head 0: q rows, k rows, v rows; head 1: q rows, k rows, v rows; ...
"""
import math
from typing import Dict

import torch

Tensors = Dict[str, torch.Tensor]


def linear(sd: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, sd[name + ".weight"], sd[name + ".bias"])


def norm(sd: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], sd[name + ".weight"], sd[name + ".bias"])


def partial_rope(x, frac, base=10000.0):
    # x [B, H, L, d]; the first frac * d channels turn (half-split)
    n = int(x.shape[-1] * frac)
    r, rest = x[..., :n], x[..., n:]
    inv = 1.0 / base ** (torch.arange(0, n, 2, dtype=torch.float32) / n)
    t = torch.outer(torch.arange(x.shape[-2], dtype=torch.float32), inv).to(x.dtype)
    c, s = torch.cat([t, t], -1).cos(), torch.cat([t, t], -1).sin()
    a, b = r[..., : n // 2], r[..., n // 2 :]
    return torch.cat([r * c + torch.cat([-b, a], -1) * s, rest], -1)


def attention(sd: Tensors, pre: str, x: torch.Tensor, heads: int, frac: float = 0.25):
    B, L, D = x.shape
    d = D // heads
    qkv = linear(sd, pre + "query_key_value", x)
    qkv = qkv.view(B, L, 3, heads, d).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    q, k = partial_rope(q, frac), partial_rope(k, frac)
    s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(d)
    s = s + torch.full((L, L), float("-inf"), dtype=s.dtype).triu(1)
    o = torch.matmul(torch.softmax(s, -1), v)
    return linear(sd, pre + "dense", o.transpose(1, 2).reshape(B, L, D))


def layer(sd: Tensors, i: int, x, heads):
    p = f"gpt_neox.layers.{i}."
    a = attention(sd, p + "attention.", norm(sd, p + "input_layernorm", x), heads)
    h = linear(sd, p + "mlp.dense_h_to_4h", norm(sd, p + "post_attention_layernorm", x))
    return x + a + linear(sd, p + "mlp.dense_4h_to_h", torch.nn.functional.gelu(h))


def run(sd: Tensors, ids, n_layers, heads):
    x = sd["gpt_neox.embed_in.weight"][ids]
    for i in range(n_layers):
        x = layer(sd, i, x, heads)
    return norm(sd, "gpt_neox.final_layer_norm", x) @ sd["embed_out.weight"].T
