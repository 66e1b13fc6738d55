"""T5 encoder, ported from the mesh-tensorflow code for the query-rewriting service.

T5 folds the 1/sqrt(d_kv) into the initialisation of the query projection, so
the products are used unscaled; checkpoints depend on it.
"""
import math
from typing import Mapping, Optional

import torch
from torch import nn, Tensor


class RMSNorm(nn.Module):
    def __init__(self, d: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps).to(x.dtype)


def relative_bucket(rel: Tensor, n: int = 32, max_distance: int = 128) -> Tensor:
    """rel = memory position - query position (bidirectional buckets)."""
    n //= 2
    ret = (rel > 0).long() * n
    rel = rel.abs()
    max_exact = n // 2
    large = max_exact + (
        torch.log(rel.float().clamp(min=1.0) / max_exact) / math.log(max_distance / max_exact) * (n - max_exact)
    ).long()
    large = large.clamp(max=n - 1)
    return ret + torch.where(rel < max_exact, rel, large)


class T5SelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_kv: int, has_bias_table: bool):
        super().__init__()
        self.n_heads, self.d_kv = n_heads, d_kv
        inner = n_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(32, n_heads) if has_bias_table else None
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)
        nn.init.normal_(self.o.weight, std=inner ** -0.5)

    def position_bias(self, length: int, device) -> Tensor:
        pos = torch.arange(length, device=device)
        buckets = relative_bucket(pos[None, :] - pos[:, None])
        return self.relative_attention_bias(buckets).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x: Tensor, padding: Optional[Tensor] = None, bias: Optional[Tensor] = None):
        """padding: [B, L] bool, True = padding. bias is made by the first layer and handed on."""
        B, L, _ = x.shape
        shape = lambda t: t.view(B, L, self.n_heads, self.d_kv).transpose(1, 2)
        q, k, v = shape(self.q(x)), shape(self.k(x)), shape(self.v(x))
        if bias is None:
            bias = self.position_bias(L, x.device)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) + bias
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None, :], torch.finfo(scores.dtype).min)
        w = torch.softmax(scores.float(), dim=-1).type_as(scores)
        y = torch.einsum("bhqk,bhkd->bqhd", w, v).reshape(B, L, self.n_heads * self.d_kv)
        return self.o(y), bias


class T5EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_kv, d_ff, first):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(d_model), RMSNorm(d_model)
        self.attn = T5SelfAttention(d_model, n_heads, d_kv, first)
        self.wi = nn.Linear(d_model, d_ff, bias=False)
        self.wo = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x, padding, bias):
        a, bias = self.attn(self.norm1(x), padding, bias)
        x = x + a
        return x + self.wo(torch.relu(self.wi(self.norm2(x)))), bias


class T5Encoder(nn.Module):
    def __init__(self, vocab=128, d_model=32, n_heads=4, d_kv=8, d_ff=64, layers=2):
        super().__init__()
        self.shared = nn.Embedding(vocab, d_model)
        self.block = nn.ModuleList(T5EncoderLayer(d_model, n_heads, d_kv, d_ff, i == 0) for i in range(layers))
        self.final = RMSNorm(d_model)

    def forward(self, ids: Tensor, pad_id: int = 0) -> Tensor:
        x, bias = self.shared(ids), None
        for layer in self.block:
            x, bias = layer(x, ids == pad_id, bias)
        return self.final(x)


def convert_tf_name(name: str) -> str:
    """encoder/block_003/layer_000/SelfAttention/q -> block.3.attn.q.weight"""
    parts = name.split("/")
    if parts[0] == "shared":
        return "shared.weight"
    idx = int(parts[1].split("_")[1])
    leaf = parts[-1]
    return f"block.{idx}.attn.{leaf}.weight" if leaf in "qkvo" else f"block.{idx}.{leaf}.weight"


def load_tf(model: T5Encoder, arrays: Mapping[str, "object"]) -> list:
    own = dict(model.named_parameters())
    missed = []
    for name, a in arrays.items():
        t = torch.as_tensor(a)
        key = convert_tf_name(name)
        if key not in own:
            missed.append(name)
            continue
        own[key].data.copy_(t.t() if t.dim() == 2 and key != "shared.weight" else t)
    return missed
