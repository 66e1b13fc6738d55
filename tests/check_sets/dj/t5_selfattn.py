"""
Encoder self-attention of T5 (Raffel et al., 2020), written out for our seminar.

Two things differ from Vaswani et al.:

* there is no 1/sqrt(d_kv). T5 folds that factor into the initialisation of the
  query matrix (std = (d_model * d_kv)^-0.5), so the logits are the plain q.k;
* instead of position embeddings, a scalar per head is looked up by the bucket of
  (key position - query position) and added to the logits. Half of the buckets are
  for keys to the right, and within each half: exact up to max_exact, then
  logarithmic up to max_distance.
"""
import math

import torch
from torch import nn


def bucket(rel, num_buckets=32, max_distance=128):
    """rel = key_pos - query_pos (long tensor) -> bucket index, same shape."""
    half = num_buckets // 2
    side = (rel > 0).long() * half
    n = rel.abs()
    max_exact = half // 2
    log_part = max_exact + (
        torch.log(n.clamp(min=1).float() / max_exact)
        / math.log(max_distance / max_exact)
        * (half - max_exact)
    ).long()
    log_part = log_part.clamp(max=half - 1)
    return side + torch.where(n < max_exact, n, log_part)


class T5EncoderSelfAttention(nn.Module):
    def __init__(self, d_model=48, d_kv=16, n_heads=4, num_buckets=32, max_distance=128):
        super().__init__()
        self.h, self.d = n_heads, d_kv
        self.nb, self.md = num_buckets, max_distance
        inner = n_heads * d_kv          # need not be d_model
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, n_heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)

    def forward(self, x, attention_mask=None):
        """x (B, L, d_model); attention_mask (B, L) with 1 = token, 0 = padding."""
        B, L, _ = x.shape
        q, k, v = (
            f(x).view(B, L, self.h, self.d).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        logits = q @ k.transpose(2, 3)                         # unscaled, see above
        pos = torch.arange(L, device=x.device)
        b = self.relative_attention_bias(bucket(pos[None, :] - pos[:, None], self.nb, self.md))
        logits = logits + b.permute(2, 0, 1)[None]             # (1, H, Lq, Lk)
        if attention_mask is not None:
            drop = (1.0 - attention_mask[:, None, None, :].to(logits.dtype))
            logits = logits + drop * torch.finfo(logits.dtype).min
        w = logits.float().softmax(-1).type_as(logits)
        return self.o((w @ v).transpose(1, 2).reshape(B, L, -1))
