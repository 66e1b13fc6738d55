"""Attention of the old checkpoint family, rewritten on top of SDPA.

Checkpoint layout: the rows of ``query_key_value`` are stored head by head,
i.e. for head 0 the d query rows, the d key rows, the d value rows, then the
same for head 1, and so on: weight.view(n_head, 3, d, n_embd).

    x    (B, T, n_embd) -> (B, T, n_embd)

Causal; scale 1/sqrt(d). ``p_drop`` is dropout of the attention weights while
training; in eval mode the layer is deterministic.
"""
import torch
from torch import nn
from torch.nn import functional as F


class OldAttention(nn.Module):
    def __init__(self, n_embd: int = 32, n_head: int = 4, p_drop: float = 0.1):
        super().__init__()
        self.n_head = n_head
        self.d = n_embd // n_head
        self.p_drop = p_drop
        self.query_key_value = nn.Linear(n_embd, 3 * n_embd)
        self.dense = nn.Linear(n_embd, n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, E = x.shape
        fused = self.query_key_value(x)
        fused = fused.view(B, T, 3, self.n_head, self.d)
        q, k, v = fused.permute(2, 0, 3, 1, 4)
        ctx = F.scaled_dot_product_attention(
            q, k, v,
            dropout_p=self.p_drop,
            is_causal=True,
        )
        ctx = ctx.transpose(1, 2).contiguous().view(B, T, E)
        return self.dense(ctx)
