"""Speech-to-text decoder for the call-centre transcriber (Whisper layout, own weights)."""
from typing import Dict, Optional

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x: Tensor, xa: Optional[Tensor] = None, causal: bool = False, cache: Optional[Dict] = None):
        """xa: encoder states for cross attention. Cross keys are computed once per utterance."""
        q = self.query(x)
        if xa is not None and cache is not None and self in cache:
            k, v = cache[self]
        else:
            src = x if xa is None else xa
            k, v = self.key(src), self.value(src)
            if cache is not None:
                if xa is None and self in cache:
                    k = torch.cat([cache[self][0], k], dim=1)
                    v = torch.cat([cache[self][1], v], dim=1)
                cache[self] = (k, v)
        return self.out(self.qkv_attention(q, k, v, causal))

    def qkv_attention(self, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        n_batch, n_ctx, n_state = q.shape
        n_keys = k.shape[1]
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(n_batch, n_ctx, self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(n_batch, n_keys, self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(n_batch, n_keys, self.n_head, -1).permute(0, 2, 1, 3)
        qk = (q @ k).float()
        if causal and n_ctx > 1:
            qk = qk + torch.full((n_ctx, n_keys), float("-inf"), device=qk.device).triu_(1 + n_keys - n_ctx)
        w = qk.softmax(dim=-1).to(v.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)


class Block(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.attn, self.attn_ln = Attention(n_state, n_head), nn.LayerNorm(n_state)
        self.cross, self.cross_ln = Attention(n_state, n_head), nn.LayerNorm(n_state)
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)

    def forward(self, x, xa, cache=None):
        x = x + self.attn(self.attn_ln(x), causal=True, cache=cache)
        x = x + self.cross(self.cross_ln(x), xa, cache=cache)
        return x + self.mlp(self.mlp_ln(x))


class TextDecoder(nn.Module):
    def __init__(self, n_vocab=64, n_ctx=48, n_state=32, n_head=4, n_layer=2):
        super().__init__()
        self.tok = nn.Embedding(n_vocab, n_state)
        self.pos = nn.Parameter(torch.randn(n_ctx, n_state) * 0.02)
        self.blocks = nn.ModuleList(Block(n_state, n_head) for _ in range(n_layer))
        self.ln = nn.LayerNorm(n_state)

    def forward(self, tokens: Tensor, xa: Tensor, cache: Optional[Dict] = None) -> Tensor:
        offset = cache.get("n", 0) if cache is not None else 0
        x = self.tok(tokens) + self.pos[offset:offset + tokens.shape[-1]]
        for b in self.blocks:
            x = b(x, xa, cache)
        if cache is not None:
            cache["n"] = offset + tokens.shape[-1]
        return self.ln(x) @ self.tok.weight.T

    @torch.no_grad()
    def transcribe(self, xa: Tensor, sot: int, eot: int, limit: int = 40):
        cache: Dict = {}
        tokens = torch.full((xa.shape[0], 1), sot, dtype=torch.long)
        step = tokens
        for _ in range(limit):
            step = self(step, xa, cache)[:, -1:].argmax(-1)
            tokens = torch.cat([tokens, step], dim=1)
            if bool((step == eot).all()):
                break
        return tokens
