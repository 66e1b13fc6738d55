import torch
import torch.nn as nn


class GroupedQueryAttention(nn.Module):
    """
    Llama-2 style grouped-query attention (bidirectional, used in our embedding model).

    Checkpoints are loaded from the original release, where each group of
    n_rep = n_heads // n_kv_heads consecutive query heads shares one kv head:
    heads 0..n_rep-1 use kv head 0, the next n_rep use kv head 1, and so on.
    """

    def __init__(self, dim: int, n_heads: int, n_kv_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.n_rep = n_heads // n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim).transpose(1, 2)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim).transpose(1, 2)
        xk = xk.repeat(1, self.n_rep, 1, 1)
        xv = xv.repeat(1, self.n_rep, 1, 1)
        scores = torch.matmul(xq, xk.transpose(2, 3)) * self.head_dim ** -0.5
        scores = torch.softmax(scores.float(), dim=-1).type_as(xq)
        out = torch.matmul(scores, xv)
        return self.wo(out.transpose(1, 2).reshape(bsz, seqlen, -1))
