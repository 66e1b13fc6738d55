"""One T5 decoder layer, re-done from the paper and checked by hand against the JAX original.

x    (B, T, d)   decoder side, causal self-attention
enc  (B, S, d)   encoder side;  enc_keep (B, S): 1 for a token, 0 for padding

T5 has two quirks that one has to know when reading this:
 * attention logits are NOT divided by sqrt(d_kv); the factor is in the initialisation
 * a bias per head and bucketed distance is added in self-attention (log buckets, looking
   back only); the cross-attention has no bias
Pre-norm with RMSNorm, no biases in the linear layers.
"""
import math
import torch
import torch.nn as nn


def bucket(dist, n_buckets=32, max_dist=128):
    """dist = query - key >= 0. Half of the buckets are exact, the rest log-spaced."""
    exact = n_buckets // 2
    far = exact + (
        torch.log(dist.clamp(min=1).float() / exact) / math.log(max_dist / exact) * (n_buckets - exact)
    ).long()
    return torch.where(dist < exact, dist, far.clamp(max=n_buckets - 1))


class T5DecoderLayer(nn.Module):
    def __init__(self, d=64, n=4, d_kv=8, d_ff=96, n_buckets=32):
        super().__init__()
        self.n, self.d_kv, self.nb = n, d_kv, n_buckets
        lin = lambda i, o: nn.Linear(i, o, bias=False)
        self.sq, self.sk, self.sv, self.so = lin(d, n * d_kv), lin(d, n * d_kv), lin(d, n * d_kv), lin(n * d_kv, d)
        self.cq, self.ck, self.cv, self.co = lin(d, n * d_kv), lin(d, n * d_kv), lin(d, n * d_kv), lin(n * d_kv, d)
        self.rel = nn.Embedding(n_buckets, n)
        self.wi, self.wo = lin(d, d_ff), lin(d_ff, d)
        self.n1, self.n2, self.n3 = nn.RMSNorm(d, 1e-6), nn.RMSNorm(d, 1e-6), nn.RMSNorm(d, 1e-6)

    def heads(self, t):
        return t.view(t.size(0), t.size(1), self.n, self.d_kv)

    def attend(self, q, k, v, bias):
        q, k, v = self.heads(q), self.heads(k), self.heads(v)
        logits = torch.einsum("bqnd,bknd->bnqk", q, k) + bias
        w = torch.softmax(logits.float(), -1).to(v.dtype)
        return torch.einsum("bnqk,bknd->bqnd", w, v).flatten(2)

    def forward(self, x, enc, enc_keep):
        T = x.size(1)
        i = torch.arange(T, device=x.device)
        dist = i[:, None] - i[None, :]
        bias = self.rel(bucket(dist.clamp(min=0), self.nb)).permute(2, 0, 1)
        bias = bias.masked_fill(dist < 0, float("-inf"))[None]
        h = self.n1(x)
        x = x + self.so(self.attend(self.sq(h), self.sk(h), self.sv(h), bias))
        pad = (1.0 - enc_keep.to(x.dtype)) * torch.finfo(x.dtype).min
        x = x + self.co(self.attend(self.cq(self.n2(x)), self.ck(enc), self.cv(enc), pad[:, None, None, :]))
        return x + self.wo(torch.relu(self.wi(self.n3(x))))
