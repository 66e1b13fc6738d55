"""Decoder of our Swiss-German dictation model (derived from a Whisper fork).

Only the text decoder lives here, the conv front-end is in `frontend.py`.
"""
from typing import Dict, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SAMPLE_RATE = 16_000
HOP = 160


def frames_for(seconds: float) -> int:
    return int(seconds * SAMPLE_RATE) // HOP


class CachedAttention(nn.Module):
    """Multi-head attention. `cache` is a dict owned by the caller, keyed by name.

    Self-attention is causal: a new token sees all cached tokens, itself, and the
    new tokens before it. Cross-attention (xa given) sees every audio frame.
    """

    def __init__(self, n_state: int, n_head: int, name: str = "self"):
        super().__init__()
        self.n_head = n_head
        self.name = name
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x: Tensor, xa: Optional[Tensor] = None, cache: Optional[Dict] = None) -> Tensor:
        q = self.query(x)
        if xa is not None and cache is not None and self.name in cache:
            k, v = cache[self.name]
        else:
            src = x if xa is None else xa
            k, v = self.key(src), self.value(src)
            if cache is not None:
                if xa is None and self.name in cache:
                    pk, pv = cache[self.name]
                    k, v = torch.cat([pk, k], 1), torch.cat([pv, v], 1)
                cache[self.name] = (k, v)
        return self.out(self._attend(q, k, v, causal=xa is None))

    def _attend(self, q, k, v, causal):
        n_batch, n_ctx, n_state = q.shape
        # Whisper splits the scale evenly over q and k
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(*q.shape[:2], self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(*k.shape[:2], self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(*v.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if causal and n_ctx > 1:
            total = qk.shape[-1]
            hide = torch.ones(n_ctx, total, dtype=torch.bool, device=q.device).triu(total - n_ctx + 1)
            qk = qk.masked_fill(hide, float("-inf"))
        w = F.softmax(qk, dim=-1)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)


class DecoderBlock(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.attn = CachedAttention(n_state, n_head, "self")
        self.cross = CachedAttention(n_state, n_head, "cross")
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(n_state) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))

    def forward(self, x, audio, cache=None):
        x = x + self.attn(self.ln1(x), cache=cache)
        x = x + self.cross(self.ln2(x), audio, cache=cache)
        return x + self.mlp(self.ln3(x))
