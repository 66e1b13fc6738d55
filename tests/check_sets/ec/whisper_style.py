"""Attention block of a speech-to-text decoder (self + cross), with a kv cache.

Whisper scales q and k by d**-0.25 each instead of the product by d**-0.5; same
number, but friendlier to half precision.  Keys have no bias.

`cache` is a plain dict owned by the caller.  Cross-attention keys/values are computed
once per utterance and reused; self-attention ones grow by the new tokens.  Start every
utterance with an empty dict.

tokens (B, T, D): the new token states; audio (B, S, D): encoder output (all frames
count, Whisper always pads to 30 s and attends to everything).  Causal among tokens.
"""
from typing import Dict, Optional

import torch
from torch import Tensor, nn


class MHA(nn.Module):
    def __init__(self, D: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(D, D)
        self.key = nn.Linear(D, D, bias=False)
        self.value = nn.Linear(D, D)
        self.out = nn.Linear(D, D)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        B, T, D = q.shape
        scale = (D // self.n_head) ** -0.25
        q = q.view(B, T, self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(B, k.shape[1], self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(B, v.shape[1], self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask
        w = qk.float().softmax(dim=-1).to(q.dtype)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))


class DecoderAttention(nn.Module):
    def __init__(self, D: int, n_head: int):
        super().__init__()
        self.self_attn, self.cross = MHA(D, n_head), MHA(D, n_head)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, tokens: Tensor, audio: Tensor, cache: Dict[str, Tensor]) -> Tensor:
        h = self.ln1(tokens)
        k, v = self.self_attn.key(h), self.self_attn.value(h)
        if "k" in cache:
            k = torch.cat((cache["k"], k), dim=1)
            v = torch.cat((cache["v"], v), dim=1)
        cache["k"], cache["v"] = k, v
        T, L = h.shape[1], k.shape[1]
        mask = torch.full((T, L), float("-inf"), device=h.device).triu_(1 + L - T)
        x = tokens + self.self_attn.attend(self.self_attn.query(h), k, v, mask)

        if "ck" not in cache:
            cache["ck"], cache["cv"] = self.cross.key(audio), self.cross.value(audio)
        h = self.ln2(x)
        return x + self.cross.attend(self.cross.query(h), cache["ck"], cache["cv"])
