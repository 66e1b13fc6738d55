"""T5 attention: no 1/sqrt(d) (the initialisation takes care of it), learnt relative buckets."""
import math

import torch
import torch.nn as nn


class T5SelfAttention(nn.Module):
    """
    hidden (batch, seq, d_model); mask (batch, seq) int, 1 = keep and 0 = padding, at least one 1 a row.

    As in the T5 paper the scores q.k are NOT scaled. position_bias[h, i, j] depends on the bucket of
    memory position j minus query position i, shared by all batches, and is added to the scores.
    The encoder (is_decoder=False) uses half of the buckets for each sign; the decoder is causal.
    """

    def __init__(self, d_model=32, d_kv=8, num_heads=4, num_buckets=16, max_distance=32, is_decoder=False):
        super().__init__()
        self.n_heads, self.d_kv = num_heads, d_kv
        self.num_buckets, self.max_distance, self.is_decoder = num_buckets, max_distance, is_decoder
        inner = num_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)

    def _bucket(self, rel):
        n = self.num_buckets
        ret = torch.zeros_like(rel)
        if not self.is_decoder:
            n //= 2
            ret = ret + (rel > 0).long() * n
            rel = rel.abs()
        else:
            rel = -torch.min(rel, torch.zeros_like(rel))
        exact = n // 2
        large = exact + (torch.log(rel.float().clamp(min=1) / exact) / math.log(self.max_distance / exact)
                         * (n - exact)).long()
        large = large.clamp(max=n - 1)
        return ret + torch.where(rel < exact, rel, large)

    def compute_bias(self, n):
        pos = torch.arange(n, device=self.o.weight.device)
        values = self.relative_attention_bias(self._bucket(pos[None, :] - pos[:, None]))
        return values.permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden, mask):
        B, n, _ = hidden.shape
        shape = lambda t: t.view(B, n, self.n_heads, self.d_kv).transpose(1, 2)
        q, k, v = shape(self.q(hidden)), shape(self.k(hidden)), shape(self.v(hidden))
        allowed = mask[:, None, None, :].bool()
        if self.is_decoder:
            allowed = allowed & torch.ones(n, n, dtype=torch.bool, device=hidden.device).tril()
        scores = torch.matmul(q, k.transpose(3, 2)) + self.compute_bias(n)
        scores = scores + torch.zeros_like(scores).masked_fill(~allowed, torch.finfo(scores.dtype).min)
        attn_weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        out = torch.matmul(attn_weights, v).transpose(1, 2).contiguous().view(B, n, -1)
        return self.o(out)
