"""Causal linear attention ("Transformers are RNNs", elu + 1 features): parallel form, chunked form
and the recurrent step that our streaming TTS uses. All three give the same numbers.
"""
import torch
from torch import nn
import torch.nn.functional as F


def feature(x):
    return F.elu(x) + 1


def parallel(q, k, v, eps=1e-6):
    """q, k, v [B, H, L, D]"""
    q, k = feature(q), feature(k)
    a = torch.tril(q @ k.transpose(-1, -2))
    return (a @ v) / (a.sum(-1, keepdim=True) + eps)


def chunked(q, k, v, size=16, eps=1e-6):
    q, k = feature(q), feature(k)
    B, H, L, D = q.shape
    S = q.new_zeros(B, H, D, v.shape[-1])
    z = q.new_zeros(B, H, D)
    out = []
    for a in range(0, L, size):
        qc, kc, vc = q[:, :, a:a + size], k[:, :, a:a + size], v[:, :, a:a + size]
        inner = torch.tril(qc @ kc.transpose(-1, -2))
        num = inner @ vc + qc @ S
        den = inner.sum(-1) + torch.einsum("bhld,bhd->bhl", qc, z)
        out.append(num / (den[..., None] + eps))
        S = S + kc.transpose(-1, -2) @ vc
        z = z + kc.sum(2)
    return torch.cat(out, 2)


class State:
    __slots__ = ("S", "z")

    def __init__(self, B, H, D, Dv, like):
        self.S = like.new_zeros(B, H, D, Dv)
        self.z = like.new_zeros(B, H, D)


def step(q, k, v, st, eps=1e-6):
    """one position, q/k/v [B, H, D]; changes `st`"""
    q, k = feature(q), feature(k)
    st.S = st.S + torch.einsum("bhd,bhe->bhde", k, v)
    st.z = st.z + k
    num = torch.einsum("bhd,bhde->bhe", q, st.S)
    den = (q * st.z).sum(-1, keepdim=True) + eps
    return num / den


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=4, chunk=16):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def _heads(self, x):
        B, L, _ = x.shape
        qkv = self.qkv(x).reshape(B, L, 3, self.heads, -1)
        return qkv.permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x):
        q, k, v = self._heads(x)
        y = chunked(q, k, v, self.chunk) if x.size(1) > self.chunk else parallel(q, k, v)
        return self.proj(y.transpose(1, 2).flatten(2))

    def init_state(self, x):
        d = x.size(-1) // self.heads
        return State(x.size(0), self.heads, d, d, x)

    def stream(self, x, st):
        """x [B, 1, C]"""
        q, k, v = (t[:, :, 0] for t in self._heads(x))
        return self.proj(step(q, k, v, st).flatten(1))[:, None]
