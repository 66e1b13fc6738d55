"""Encoder-decoder speech recogniser (Whisper layout) with a key/value cache for decoding.

The cache is a plain dict handed to every call.  Self-attention appends to it; for
cross-attention the audio's keys and values are written once and then reused.
"""
from typing import Dict, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sinusoids(length, channels, max_timescale=10000):
    """Sines in the first half of the channels, cosines in the second (as in tensor2tensor)."""
    step = np.log(max_timescale) / (channels // 2 - 1)
    inv = torch.exp(-step * torch.arange(channels // 2))
    t = torch.arange(length)[:, None] * inv[None]
    return torch.cat([t.sin(), t.cos()], dim=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x: Tensor, xa: Optional[Tensor] = None, mask: Optional[Tensor] = None,
                audio_len: Optional[Tensor] = None, cache: Optional[Dict] = None):
        """mask: additive [n, n_ctx]; audio_len [B]: frames of xa in use.  Returns (out, scores)."""
        q = self.query(x)
        name = id(self)
        if xa is not None and cache is not None and name in cache:
            k, v = cache[name]
        else:
            k = self.key(x if xa is None else xa)
            v = self.value(x if xa is None else xa)
            if cache is not None:
                if xa is None and name in cache:
                    k = torch.cat([cache[name][0], k], dim=1)
                    v = torch.cat([cache[name][1], v], dim=1)
                cache[name] = (k, v)
        wv, w = self.qkv_attention(q, k, v, mask, audio_len)
        return self.out(wv), w

    def qkv_attention(self, q, k, v, mask=None, audio_len=None):
        _, n_ctx, n_state = q.shape
        # the root of the usual factor goes on q and on k
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(*q.shape[:2], self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(*k.shape[:2], self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(*v.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)
        qk = (q @ k).float()
        if mask is not None:
            # rows of the mask that belong to the newest n_ctx tokens
            end = qk.shape[-1]
            qk = qk + mask[end - n_ctx:end, :end]
        if audio_len is not None:
            unused = torch.arange(qk.shape[-1], device=qk.device)[None] >= audio_len[:, None]
            qk = qk.masked_fill(unused[:, None, None, :], torch.finfo(qk.dtype).min)
        w = F.softmax(qk, dim=-1).to(q.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2), w


class ResidualAttentionBlock(nn.Module):
    def __init__(self, n_state, n_head, cross_attention=False):
        super().__init__()
        self.attn, self.attn_ln = MultiHeadAttention(n_state, n_head), nn.LayerNorm(n_state)
        self.cross_attn = MultiHeadAttention(n_state, n_head) if cross_attention else None
        self.cross_attn_ln = nn.LayerNorm(n_state) if cross_attention else None
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)

    def forward(self, x, xa=None, mask=None, audio_len=None, cache=None):
        own_len = audio_len if xa is None else None
        x = x + self.attn(self.attn_ln(x), mask=mask, audio_len=own_len, cache=cache)[0]
        if self.cross_attn is not None:
            x = x + self.cross_attn(self.cross_attn_ln(x), xa, audio_len=audio_len, cache=cache)[0]
        return x + self.mlp(self.mlp_ln(x))


class AudioEncoder(nn.Module):
    def __init__(self, n_mels, n_ctx, n_state, n_head, n_layer):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, n_state, 3, padding=1)
        self.conv2 = nn.Conv1d(n_state, n_state, 3, stride=2, padding=1)
        self.register_buffer("pos", sinusoids(n_ctx, n_state))
        self.blocks = nn.ModuleList(ResidualAttentionBlock(n_state, n_head) for _ in range(n_layer))
        self.ln = nn.LayerNorm(n_state)

    def forward(self, mel, mel_len):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)
        x = x + self.pos[:x.shape[1]]
        n = (mel_len + 1) // 2
        for b in self.blocks:
            x = b(x, audio_len=n)
        return self.ln(x), n


class TextDecoder(nn.Module):
    def __init__(self, n_vocab, n_ctx, n_state, n_head, n_layer):
        super().__init__()
        self.tok = nn.Embedding(n_vocab, n_state)
        self.pos = nn.Parameter(torch.randn(n_ctx, n_state) * 0.01)
        self.blocks = nn.ModuleList(ResidualAttentionBlock(n_state, n_head, True) for _ in range(n_layer))
        self.ln = nn.LayerNorm(n_state)
        self.register_buffer("mask", torch.full((n_ctx, n_ctx), -np.inf).triu(1), persistent=False)

    def forward(self, tokens, xa, audio_len, cache=None):
        start = cache.get("n", 0) if cache is not None else 0
        x = self.tok(tokens) + self.pos[start:start + tokens.shape[1]]
        for b in self.blocks:
            x = b(x, xa, mask=self.mask, audio_len=audio_len, cache=cache)
        if cache is not None:
            cache["n"] = start + tokens.shape[1]
        return self.ln(x) @ self.tok.weight.T


@torch.no_grad()
def greedy(enc, dec, mel, mel_len, prompt, n):
    xa, audio_len = enc(mel, mel_len)
    cache, tok, out = {}, prompt, []
    for _ in range(n):
        tok = dec(tok, xa, audio_len, cache)[:, -1].argmax(-1, keepdim=True)
        out.append(tok)
    return torch.cat(out, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    enc, dec = AudioEncoder(20, 100, 32, 4, 2), TextDecoder(60, 40, 32, 4, 2)
    print(greedy(enc, dec, torch.randn(2, 20, 60), torch.tensor([60, 41]), torch.tensor([[1, 2]] * 2), 6))
