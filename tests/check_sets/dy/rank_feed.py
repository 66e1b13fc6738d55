"""Feed ranking, candidate-over-history reader (PR 4121: hand-written bmm replaced by SDPA).

CandidateReader(dim, heads, p).forward(cand, hist, hist_len)
    cand      (B, C, D) float   C candidates of one request
    hist      (B, T, D) float   clicked items, oldest first, right-padded
    hist_len  (B,) int          number of real items, 0..T; 0 means a new user
returns (B, C, D): every candidate attends, per head with 1/sqrt(D / heads), to the
real items of its own request.  A new user has a context of zeros, so that its rows
are the bias of the output layer.  Dropout acts on the weights in training only.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CandidateReader(nn.Module):
    def __init__(self, dim, heads, p=0.1):
        super().__init__()
        self.heads, self.p = heads, p
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, cand, hist, hist_len):
        q = self.q(cand).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(hist).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        cold = hist_len.eq(0)
        keep = torch.arange(hist.size(1), device=hist.device)[None] < hist_len[:, None]
        keep = keep | cold[:, None]          # the kernel wants a key in every row
        ctx = F.scaled_dot_product_attention(
            q, k, v, attn_mask=keep[:, None, None, :],
            dropout_p=self.p if self.training else 0.0)
        ctx = ctx.masked_fill(cold[:, None, None, None], 0.0)
        return self.out(ctx.transpose(1, 2).flatten(2))
