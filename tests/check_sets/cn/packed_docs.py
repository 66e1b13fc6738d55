"""Packed pre-training batches: several documents lie one behind the other in ONE row.

cu_seqlens works like in the varlen kernels: int [n_docs + 1], starts with 0, ends
with the number of tokens; document i owns tokens cu[i] .. cu[i+1]-1.
A token sees itself and the earlier tokens of its own document, nothing else.
This is the slow reference path for machines without the kernel.
"""
import torch
import torch.nn as nn


def document_ids(cu_seqlens: torch.Tensor) -> torch.Tensor:
    """[0, 3, 5] -> [0, 0, 0, 1, 1]"""
    sizes = cu_seqlens[1:] - cu_seqlens[:-1]
    return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)


def positions_in_doc(cu_seqlens: torch.Tensor) -> torch.Tensor:
    doc = document_ids(cu_seqlens)
    return torch.arange(doc.numel(), device=doc.device) - cu_seqlens[doc]


class PackedSelfAttention(nn.Module):
    def __init__(self, embed: int = 64, heads: int = 4, max_pos: int = 512):
        super().__init__()
        self.heads = heads
        self.head_dim = embed // heads
        self.pos = nn.Embedding(max_pos, embed)
        self.c_attn = nn.Linear(embed, 3 * embed)
        self.c_proj = nn.Linear(embed, embed)

    def forward(self, hidden: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        """hidden [total_tokens, embed] -> [total_tokens, embed]"""
        total, embed = hidden.shape
        assert int(cu_seqlens[-1]) == total
        x = hidden + self.pos(positions_in_doc(cu_seqlens))
        q, k, v = self.c_attn(x).split(embed, dim=-1)
        q = q.view(total, self.heads, self.head_dim).transpose(0, 1)   # [H, N, d]
        k = k.view(total, self.heads, self.head_dim).transpose(0, 1)
        v = v.view(total, self.heads, self.head_dim).transpose(0, 1)

        doc = document_ids(cu_seqlens)
        n = torch.arange(total, device=hidden.device)
        allowed = (doc[:, None] == doc[None, :]) & (n[:, None] >= n[None, :])

        scores = torch.baddbmm(
            torch.zeros(self.heads, total, total, dtype=q.dtype, device=q.device),
            q, k.transpose(1, 2), beta=0.0, alpha=self.head_dim ** -0.5,
        )
        scores = scores.masked_fill(~allowed, float("-inf"))
        out = torch.bmm(scores.softmax(dim=-1), v)
        return self.c_proj(out.transpose(0, 1).reshape(total, embed))
