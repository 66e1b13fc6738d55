"""Self-attention does not need O(n^2) memory (Rabe & Staats), PyTorch port of the JAX listing."""
import functools

import torch
from torch.utils.checkpoint import checkpoint


def _chunk(q, k, v, bias):
    """q [..., nq, h, d], k/v [..., nk, h, d], bias [..., h, nq, nk] or None"""
    w = torch.einsum("...qhd,...khd->...qhk", q, k)
    if bias is not None:
        w = w + bias.transpose(-3, -2)
    top = w.amax(-1, keepdim=True).detach()
    e = torch.exp(w - top)
    return torch.einsum("...vhf,...qhv->...qhf", v, e), e.sum(-1), top.squeeze(-1)


def _query_chunk(q, k, v, bias, key_chunk, ckpt):
    n = k.shape[-3]
    q = q / q.shape[-1] ** 0.5
    vals, sums, tops = [], [], []
    fn = functools.partial(checkpoint, _chunk, use_reentrant=False) if ckpt else _chunk
    for a in range(0, n, key_chunk):
        b = min(n, a + key_chunk)
        bi = None if bias is None else bias[..., a:b]
        val, s, m = fn(q, k[..., a:b, :, :], v[..., a:b, :, :], bi)
        vals.append(val)
        sums.append(s)
        tops.append(m)
    tops = torch.stack(tops)
    scale = torch.exp(tops - tops.amax(0, keepdim=True))
    num = (torch.stack(vals) * scale[..., None]).sum(0)
    den = (torch.stack(sums) * scale).sum(0)
    return num / den[..., None]


def efficient_dot_product_attention(q, k, v, bias=None, query_chunk=128, key_chunk=256, ckpt=False):
    """Same as softmax(q k^T / sqrt(d) + bias) v.

    q [..., nq, h, d]; k, v [..., nk, h, d]; bias is finite and broadcasts to [..., h, nq, nk].
    """
    nq, nk = q.shape[-3], k.shape[-3]
    if bias is not None:
        bias = bias.expand(*bias.shape[:-2], nq, nk)
    out = []
    for a in range(0, nq, query_chunk):
        b = min(nq, a + query_chunk)
        bi = None if bias is None else bias[..., a:b, :]
        out.append(_query_chunk(q[..., a:b, :, :], k, v, bi, key_chunk, ckpt))
    return torch.cat(out, dim=-3)


def causal_bias(nq, nk, dtype=torch.float32):
    """0 where allowed, a large negative number elsewhere; queries are the last nq positions."""
    i = torch.arange(nk - nq, nk)[:, None]
    return torch.where(torch.arange(nk)[None] <= i, 0.0, torch.finfo(dtype).min / 2).to(dtype)[None]


class MemoryEfficientSelfAttention(torch.nn.Module):
    def __init__(self, dim, heads, causal=True, **chunks):
        super().__init__()
        self.heads, self.causal, self.chunks = heads, causal, chunks
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.o = torch.nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.heads, -1) for t in self.qkv(x).chunk(3, -1))
        bias = causal_bias(n, n, x.dtype).to(x.device) if self.causal else None
        y = efficient_dot_product_attention(q, k, v, bias, ckpt=self.training, **self.chunks)
        return self.o(y.reshape(b, n, c))
