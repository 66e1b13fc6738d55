"""Pre-norm decoder layer with segment recurrence (Transformer-XL's memory, absolute positions).

    x     (L, B, D)          current segment, time first
    mems  (M, B, D) or None  hidden states of the M tokens right before the segment
    ->    y (L, B, D), new mems (min(M + L, mem_len), B, D)

Token i of the segment (0-based) sees all M memory tokens and the segment's tokens 0..i.
No gradient flows into the memory.
"""
import torch
from torch import nn


class RecurrentSegmentLayer(nn.Module):
    def __init__(self, d_model=32, n_head=4, mem_len=8):
        super().__init__()
        self.n_head, self.d_head, self.mem_len = n_head, d_model // n_head, mem_len
        self.ln, self.ln_ff = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))

    def forward(self, x, mems=None):
        qlen, bsz, _ = x.shape
        cat = x if mems is None else torch.cat([mems, x], dim=0)
        cat_n = self.ln(cat)
        klen = cat.size(0)
        q = self.q_net(cat_n[-qlen:]).view(qlen, bsz, self.n_head, self.d_head)
        k, v = self.kv_net(cat_n).view(klen, bsz, 2, self.n_head, self.d_head).unbind(2)

        score = torch.einsum("ibnd,jbnd->ijbn", q, k) * (1 / self.d_head ** 0.5)
        ok = torch.tril(x.new_ones(qlen, klen)).bool()
        score = score.float().masked_fill(~ok[:, :, None, None], -float("inf"))
        prob = torch.softmax(score, dim=1).type_as(score)
        vec = torch.einsum("ijbn,jbnd->ibnd", prob.to(v.dtype), v).reshape(qlen, bsz, -1)

        h = x + self.o_net(vec)
        h = h + self.ff(self.ln_ff(h))
        return h, cat[-self.mem_len:].detach()
