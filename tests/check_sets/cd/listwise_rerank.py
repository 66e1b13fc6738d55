"""Listwise reranker head.

The retriever hands over the top-N passages, each already encoded to a vector.
One transformer layer lets the passages of one query look at each other (with
separate query, key and value maps), and a linear head gives a score per
passage.  Lists shorter than N are padded at the end; padded passages are
neither seen by the others nor ranked (their score is -inf).
"""
import torch
import torch.nn as nn


class ListwiseReranker(nn.Module):
    def __init__(self, dim=24, num_heads=3, ff_mult=2):
        super().__init__()
        self.dim = dim
        self.num_heads = num_heads
        self.proj = nn.ModuleList([nn.Linear(dim, dim)] * 3)
        self.out = nn.Linear(dim, dim)
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(
            nn.Linear(dim, ff_mult * dim),
            nn.ReLU(),
            nn.Linear(ff_mult * dim, dim),
        )
        self.score = nn.Linear(dim, 1)

    def attend(self, x, keep):
        B, N, _ = x.shape
        # q, k, v: [B, H, N, D]
        q, k, v = [
            lin(x).reshape(B, N, self.num_heads, -1).transpose(1, 2)
            for lin in self.proj
        ]
        s = torch.matmul(q, k.transpose(-1, -2)) / (q.size(-1) ** 0.5)
        s = s.masked_fill(~keep[:, None, None, :], float("-inf"))
        w = torch.softmax(s, dim=-1)
        y = torch.matmul(w, v)
        return self.out(y.transpose(1, 2).reshape(B, N, self.dim))

    def forward(self, passages, query_vec, counts):
        """passages [B, N, dim], query_vec [B, dim], counts [B] (>= 1) -> scores [B, N]"""
        N = passages.size(1)
        keep = torch.arange(N, device=passages.device)[None, :] < counts[:, None]
        x = passages + query_vec[:, None, :]
        x = x + self.attend(self.ln1(x), keep)
        x = x + self.ff(self.ln2(x))
        return self.score(x).squeeze(-1).masked_fill(~keep, float("-inf"))

    @torch.no_grad()
    def rank(self, passages, query_vec, counts):
        scores = self.forward(passages, query_vec, counts)
        return [row[:c].argsort(descending=True).tolist() for row, c in zip(scores, counts.tolist())]
