"""Decoder layer of the lunar crater detector.

Conditional-DETR scheme: in the cross-attention the content part and the
spatial part of queries and keys are *concatenated per head* rather than added,
so a head works in 2 * (d_model / heads) dimensions on the query/key side and in
d_model / heads dimensions on the value side.

Conventions (as in the DETR family):
    sequence first:      tgt [num_queries, B, C], memory [H*W, B, C]
    padding mask:        [B, H*W], True = padded pixel, to be ignored
"""
from typing import Optional

import torch
from torch import Tensor, nn


def sine_embed_ref(ref: Tensor, dim: int, temperature: float = 10000.0) -> Tensor:
    """ref [..., 2] in [0, 1] (x, y) -> [..., dim]."""
    half = dim // 2
    freq = temperature ** (2 * (torch.arange(half, device=ref.device) // 2) / half)
    parts = []
    for axis in (1, 0):
        a = ref[..., axis, None] * 6.283185307179586 / freq
        parts.append(torch.stack((a[..., 0::2].sin(), a[..., 1::2].cos()), -1).flatten(-2))
    return torch.cat(parts, -1)


class CraterCrossAttention(nn.Module):
    def __init__(self, d_model: int = 128, heads: int = 8, dropout: float = 0.0):
        super().__init__()
        if d_model % heads:
            raise ValueError("d_model must be a multiple of heads")
        self.heads, self.hd = heads, d_model // heads
        self.q_content = nn.Linear(d_model, d_model)
        self.q_pos = nn.Linear(d_model, d_model)
        self.q_sine = nn.Linear(d_model, d_model)
        self.k_content = nn.Linear(d_model, d_model)
        self.k_pos = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.o_proj = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)
        self.scaling = float(2 * self.hd) ** -0.5

    def _heads(self, t: Tensor) -> Tensor:
        n, b, _ = t.shape
        return t.view(n, b, self.heads, self.hd)

    def forward(
        self,
        tgt: Tensor,
        query_pos: Tensor,
        query_sine: Tensor,
        memory: Tensor,
        memory_pos: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        is_first: bool = False,
    ):
        n, b, c = tgt.shape
        q = self.q_content(tgt)
        k = self.k_content(memory)
        v = self._heads(self.v_proj(memory))
        kp = self.k_pos(memory_pos)
        if is_first:
            # the first layer has no useful content yet: positions enter it too
            q = q + self.q_pos(query_pos)
            k = k + kp
        q = torch.cat([self._heads(q), self._heads(self.q_sine(query_sine))], dim=3)
        k = torch.cat([self._heads(k), self._heads(kp)], dim=3)

        scores = torch.einsum("nbhd,mbhd->bhnm", q * self.scaling, k)
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
        attn = scores.softmax(dim=-1)
        out = torch.einsum("bhnm,mbhd->nbhd", self.drop(attn), v).reshape(n, b, c)
        return self.o_proj(out), attn.mean(1)


class CraterDecoderLayer(nn.Module):
    def __init__(self, d_model: int = 128, heads: int = 8, ffn: int = 256):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, heads)
        self.cross = CraterCrossAttention(d_model, heads)
        self.ref_scale = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        self.ref_point = nn.Linear(d_model, 2)
        self.ffn = nn.Sequential(nn.Linear(d_model, ffn), nn.ReLU(), nn.Linear(ffn, d_model))
        self.ln = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.d_model = d_model

    def forward(self, tgt, query_pos, memory, memory_pos, key_padding_mask=None, is_first=False):
        qk = tgt + query_pos
        tgt = self.ln[0](tgt + self.self_attn(qk, qk, tgt, need_weights=False)[0])
        ref = self.ref_point(query_pos).sigmoid()
        sine = sine_embed_ref(ref, self.d_model)
        if not is_first:
            sine = sine * self.ref_scale(tgt)
        y, heat = self.cross(tgt, query_pos, sine, memory, memory_pos, key_padding_mask, is_first)
        tgt = self.ln[1](tgt + y)
        return self.ln[2](tgt + self.ffn(tgt)), heat
