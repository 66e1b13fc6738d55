"""Self-attention sublayer of the T5 decoder.

Like the original: RMS norm before, no biases, and the logits are q.k + position bias
WITHOUT division by sqrt(d_kv) (the initialisation of q takes care of it). The bias is
looked up per head from the bucket of the distance (key position - query position):
the first half of the buckets are exact distances, the rest grow logarithmically up to
max_distance. Decoder => only the past is bucketed, future keys are masked anyway.

    x     (B, T, d_model)  new hidden states
    past  None, or (k, v) each (B, heads, P, d_kv) from earlier calls
    returns (x + attention, (k, v)) where k, v hold P + T positions

The new states stand at the positions P .. P+T-1; each sees itself and what came before.
inner size heads * d_kv need not be d_model.
"""
import math
import torch
from torch import nn


class T5DecoderSelfAttention(nn.Module):
    def __init__(self, d_model=48, d_kv=10, heads=6, buckets=16, max_distance=40):
        super().__init__()
        self.heads, self.d_kv = heads, d_kv
        self.buckets, self.max_distance = buckets, max_distance
        inner = heads * d_kv
        self.weight = nn.Parameter(torch.ones(d_model))
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.rel = nn.Embedding(buckets, heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)

    def bucket(self, rel):
        n = (-rel).clamp(min=0)                       # how far back
        exact = self.buckets // 2
        big = exact + (torch.log(n.clamp(min=1) / exact) / math.log(self.max_distance / exact)
                       * (self.buckets - exact)).long()
        big = big.clamp(max=self.buckets - 1)
        return torch.where(n < exact, n, big)

    def forward(self, x, past=None):
        B, T, _ = x.shape
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        q, k, v = (f(h).view(B, T, self.heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.shape[2]
        ctx = torch.arange(S - T, S, device=x.device)[:, None]
        mem = torch.arange(S, device=x.device)[None, :]
        rel = mem - ctx
        scores = q @ k.transpose(-1, -2)
        scores = scores + self.rel(self.bucket(rel)).permute(2, 0, 1)
        scores = scores.masked_fill(rel > 0, float("-inf"))
        y = torch.softmax(scores.float(), -1).type_as(scores) @ v
        return x + self.o(y.transpose(1, 2).reshape(B, T, -1)), (k, v)
