"""Audio encoder / text decoder in the manner of Whisper, with a dictionary as KV cache."""
from typing import Dict, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x: Tensor, xa: Optional[Tensor] = None, mask: Optional[Tensor] = None,
                cache: Optional[Dict] = None):
        q = self.query(x)
        if xa is not None and cache is not None and self in cache:
            k, v = cache[self]                       # the audio does not change between steps
        else:
            src = x if xa is None else xa
            k, v = self.key(src), self.value(src)
            if cache is not None:
                if xa is None and self in cache:
                    k = torch.cat([cache[self][0], k], dim=1)
                    v = torch.cat([cache[self][1], v], dim=1)
                cache[self] = (k, v)
        return self.out(self.qkv_attention(q, k, v, mask))

    def qkv_attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor]) -> Tensor:
        n_batch, n_ctx, n_state = q.shape
        n_key = k.shape[1]
        scale = (n_state // self.n_head) ** -0.25     # on both q and k
        q = q.view(n_batch, n_ctx, self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(n_batch, n_key, self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(n_batch, n_key, self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[n_key - n_ctx:n_key, :n_key]
        w = F.softmax(qk.float(), dim=-1).to(q.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, n_state: int, n_head: int, cross_attention: bool = False):
        super().__init__()
        self.attn, self.attn_ln = MultiHeadAttention(n_state, n_head), nn.LayerNorm(n_state)
        self.cross_attn = MultiHeadAttention(n_state, n_head) if cross_attention else None
        self.cross_attn_ln = nn.LayerNorm(n_state) if cross_attention else None
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)

    def forward(self, x, xa=None, mask=None, cache=None):
        x = x + self.attn(self.attn_ln(x), mask=mask, cache=cache)
        if self.cross_attn is not None:
            x = x + self.cross_attn(self.cross_attn_ln(x), xa, cache=cache)
        return x + self.mlp(self.mlp_ln(x))


class Whisperish(nn.Module):
    def __init__(self, n_mels=20, n_vocab=60, n_audio_ctx=40, n_text_ctx=24, n_state=32, n_head=4, layers=2):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, n_state, 3, padding=1)
        self.conv2 = nn.Conv1d(n_state, n_state, 3, stride=2, padding=1)
        self.audio_pos = nn.Parameter(torch.randn(n_audio_ctx, n_state) * 0.02)
        self.enc = nn.ModuleList(ResidualAttentionBlock(n_state, n_head) for _ in range(layers))
        self.ln_post = nn.LayerNorm(n_state)
        self.tok = nn.Embedding(n_vocab, n_state)
        self.text_pos = nn.Parameter(torch.randn(n_text_ctx, n_state) * 0.02)
        self.dec = nn.ModuleList(ResidualAttentionBlock(n_state, n_head, True) for _ in range(layers))
        self.ln = nn.LayerNorm(n_state)
        self.register_buffer("mask", torch.full((n_text_ctx, n_text_ctx), float("-inf")).triu_(1), persistent=False)

    def encode(self, mel: Tensor) -> Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = x + self.audio_pos[: x.shape[1]]
        for b in self.enc:
            x = b(x)
        return self.ln_post(x)

    def decode(self, tokens: Tensor, xa: Tensor, cache: Optional[Dict] = None) -> Tensor:
        offset = cache[self.dec[0].attn][0].shape[1] if cache else 0
        x = self.tok(tokens) + self.text_pos[offset: offset + tokens.shape[-1]]
        for b in self.dec:
            x = b(x, xa, mask=self.mask, cache=cache)
        return self.ln(x) @ self.tok.weight.T

    def forward(self, mel: Tensor, tokens: Tensor) -> Tensor:
        return self.decode(tokens, self.encode(mel))
