import torch
import torch.nn as nn
import torch.nn.functional as F


class LogLineMixer(nn.Module):
    """Causal self-attention over many log lines packed one after the other.

    tokens     : (T, dim), all lines concatenated without padding
    cu_seqlens : (n + 1,) int tensor, 0 = first entry, T = last entry.
                 Line i is tokens[cu_seqlens[i]:cu_seqlens[i + 1]]; a line may be empty.
    A token sees itself and the earlier tokens of its own line, nothing else.
    """

    def __init__(self, dim: int, heads: int):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, tokens, cu_seqlens):
        T, dim = tokens.shape
        lens = (cu_seqlens[1:] - cu_seqlens[:-1]).long()
        owner = torch.repeat_interleave(torch.arange(lens.numel(), device=tokens.device), lens)
        idx = torch.arange(T, device=tokens.device)
        allowed = (owner[:, None] == owner[None, :]) & (idx[:, None] >= idx[None, :])

        q, k, v = self.qkv(self.norm(tokens)).view(T, 3, self.heads, -1).permute(1, 2, 0, 3)
        y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=allowed)
        return tokens + self.proj(y[0].transpose(0, 1).reshape(T, dim))
