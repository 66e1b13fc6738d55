"""Attention of Whisper, ported to plain PyTorch for our subtitle server.

As in the OpenAI release: the key projection has no bias, queries and keys are each
multiplied by d ** -0.25, and the product is cast to float32 before the softmax.
Caches are kept per module in a plain dict: self-attention appends to it, cross-attention
computes the audio keys/values once per utterance and reuses them.
"""
from typing import Dict, Optional

import torch
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(
        self,
        x: Tensor,
        xa: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        kv_cache: Optional[Dict[str, Tensor]] = None,
    ) -> Tensor:
        """x: (batch, n_ctx, n_state); xa: audio features; mask: additive (max_ctx, max_ctx)."""
        q = self.query(x)
        if xa is not None:
            if kv_cache is not None and "k" in kv_cache:
                k, v = kv_cache["k"], kv_cache["v"]
            else:
                k, v = self.key(xa), self.value(xa)
                if kv_cache is not None:
                    kv_cache["k"], kv_cache["v"] = k, v
        else:
            k, v = self.key(x), self.value(x)
            if kv_cache is not None:
                if "k" in kv_cache:
                    k = torch.cat([kv_cache["k"], k], dim=1)
                    v = torch.cat([kv_cache["v"], v], dim=1)
                kv_cache["k"], kv_cache["v"] = k, v
        return self.out(self.qkv_attention(q, k, v, mask))

    def qkv_attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor]) -> Tensor:
        n_batch, n_q, n_state = q.shape
        n_k = k.shape[1]
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(n_batch, n_q, self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(n_batch, n_k, self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(n_batch, n_k, self.n_head, -1).permute(0, 2, 1, 3)

        qk = q @ k
        if mask is not None:
            # the queries are the last n_q positions of the n_k known ones
            qk = qk + mask[n_k - n_q:n_k, :n_k]
        w = qk.float().softmax(dim=-1).to(q.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)


def causal_mask(n_ctx: int) -> Tensor:
    return torch.full((n_ctx, n_ctx), float("-inf")).triu_(1)


if __name__ == "__main__":
    att = MultiHeadAttention(24, 4)
    m, cache = causal_mask(32), {}
    x = torch.randn(1, 6, 24)
    full = att(x, mask=m)
    steps = [att(x[:, i:i + 1], mask=m, kv_cache=cache) for i in range(6)]
    print((full - torch.cat(steps, 1)).abs().max().item())
