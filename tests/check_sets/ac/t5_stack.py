"""A readable T5: shared relative position buckets, no scaling of the logits (T5 folds it into the init)."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class T5Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def bucketize(rel, bidirectional, num_buckets=32, max_distance=128):
    """rel = key position minus query position. Small distances get a bucket each,
    larger ones share logarithmically growing buckets."""
    out = torch.zeros_like(rel)
    if bidirectional:
        num_buckets //= 2
        out = out + (rel > 0).long() * num_buckets
        rel = rel.abs()
    else:
        rel = -torch.minimum(rel, torch.zeros_like(rel))
    exact = num_buckets // 2
    big = exact + (torch.log(rel.float().clamp(min=1) / exact) / math.log(max_distance / exact)
                   * (num_buckets - exact)).long()
    big = big.clamp(max=num_buckets - 1)
    return out + torch.where(rel < exact, rel, big)


class RelBias(nn.Module):
    def __init__(self, n_heads, bidirectional):
        super().__init__()
        self.bidirectional = bidirectional
        self.emb = nn.Embedding(32, n_heads)

    def forward(self, q_len, k_len):
        q_pos = torch.arange(q_len)[:, None]
        k_pos = torch.arange(k_len)[None, :]
        buckets = bucketize(q_pos - k_pos, self.bidirectional)
        return self.emb(buckets.to(self.emb.weight.device)).permute(2, 0, 1).unsqueeze(0)


class T5Attention(nn.Module):
    def __init__(self, d_model, n_heads, d_kv):
        super().__init__()
        self.h, self.dk = n_heads, d_kv
        inner = n_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)

    def forward(self, x, memory=None, bias=None):
        memory = x if memory is None else memory
        split = lambda t: t.unflatten(-1, (self.h, self.dk)).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        s = torch.einsum("bhid,bhjd->bhij", q, k)
        if bias is not None:
            s = s + bias
        p = F.softmax(s.float(), dim=-1).type_as(s)
        return self.o(torch.einsum("bhij,bhjd->bhid", p, v).transpose(1, 2).flatten(2))


class T5DecoderBlock(nn.Module):
    def __init__(self, d_model=64, n_heads=4, d_kv=16, d_ff=128):
        super().__init__()
        self.norms = nn.ModuleList([T5Norm(d_model) for _ in range(3)])
        self.self_attn = T5Attention(d_model, n_heads, d_kv)
        self.cross_attn = T5Attention(d_model, n_heads, d_kv)
        self.wi, self.wo = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)
        self.rel = RelBias(n_heads, bidirectional=False)

    def forward(self, x, enc, enc_keep=None):
        """x (B,T,D); enc (B,S,D); enc_keep (B,S) bool, True = real token."""
        T = x.size(1)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        self_bias = self.rel(T, T).masked_fill(future, torch.finfo(x.dtype).min)
        x = x + self.self_attn(self.norms[0](x), bias=self_bias)
        cross_bias = None
        if enc_keep is not None:
            cross_bias = torch.zeros_like(enc_keep, dtype=x.dtype)
            cross_bias = cross_bias.masked_fill(~enc_keep, torch.finfo(x.dtype).min)[:, None, None, :]
        x = x + self.cross_attn(self.norms[1](x), enc, cross_bias)
        return x + self.wo(F.relu(self.wi(self.norms[2](x))))
