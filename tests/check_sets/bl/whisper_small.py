"""Text decoder of a Whisper-like recogniser, with drafts checked several tokens at once."""
from dataclasses import dataclass
from typing import Dict, Optional

import torch
from torch import Tensor, nn


@dataclass
class ModelDimensions:
    n_vocab: int = 120
    n_text_ctx: int = 64
    n_text_state: int = 32
    n_text_head: int = 4
    n_text_layer: int = 2


class MultiHeadAttention(nn.Module):
    """
    Self attention (causal) when ``xa`` is None, cross attention otherwise.

    ``cache`` is a dict that belongs to one layer.  New keys and values of the self
    attention are appended to it; a new token sees all cached tokens, the new tokens
    before it, and itself.  For the cross attention the audio keys are kept once.
    """

    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x: Tensor, xa: Optional[Tensor] = None, cache: Optional[Dict[str, Tensor]] = None):
        q = self.query(x)
        if xa is not None and cache is not None and "xk" in cache:
            k, v = cache["xk"], cache["xv"]
        else:
            src = x if xa is None else xa
            k, v = self.key(src), self.value(src)
            if cache is not None and xa is not None:
                cache["xk"], cache["xv"] = k, v
            elif cache is not None:
                if "k" in cache:
                    k = torch.cat([cache["k"], k], dim=1)
                    v = torch.cat([cache["v"], v], dim=1)
                cache["k"], cache["v"] = k, v
        return self.out(self.qkv_attention(q, k, v, causal=xa is None))

    def qkv_attention(self, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        n_batch, n_q, n_state = q.shape
        n_k = k.shape[1]
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(n_batch, n_q, self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(n_batch, n_k, self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(n_batch, n_k, self.n_head, -1).permute(0, 2, 1, 3)

        qk = (q @ k).float()
        if causal and n_q > 1:
            allowed = torch.ones(n_q, n_k, dtype=torch.bool, device=qk.device).tril()
            qk = qk.masked_fill(~allowed, float("-inf"))
        w = qk.softmax(dim=-1).to(q.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.attn = MultiHeadAttention(n_state, n_head)
        self.attn_ln = nn.LayerNorm(n_state)
        self.cross_attn = MultiHeadAttention(n_state, n_head)
        self.cross_attn_ln = nn.LayerNorm(n_state)
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)

    def forward(self, x, xa, cache=None):
        x = x + self.attn(self.attn_ln(x), cache=cache)
        x = x + self.cross_attn(self.cross_attn_ln(x), xa, cache=cache)
        return x + self.mlp(self.mlp_ln(x))


class TextDecoder(nn.Module):
    def __init__(self, dims: ModelDimensions):
        super().__init__()
        self.token_embedding = nn.Embedding(dims.n_vocab, dims.n_text_state)
        self.positional_embedding = nn.Parameter(torch.randn(dims.n_text_ctx, dims.n_text_state) * 0.02)
        self.blocks = nn.ModuleList(
            [ResidualAttentionBlock(dims.n_text_state, dims.n_text_head) for _ in range(dims.n_text_layer)])
        self.ln = nn.LayerNorm(dims.n_text_state)

    def forward(self, tokens: Tensor, xa: Tensor, caches=None):
        offset = caches[0]["k"].shape[1] if caches and "k" in caches[0] else 0
        x = self.token_embedding(tokens) + self.positional_embedding[offset:offset + tokens.shape[-1]]
        for i, block in enumerate(self.blocks):
            x = block(x, xa, None if caches is None else caches[i])
        return self.ln(x) @ self.token_embedding.weight.T
