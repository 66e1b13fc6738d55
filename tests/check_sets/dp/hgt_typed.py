"""Heterogeneous graph transformer layer (HGT), edges in COO form, no PyG.

For an edge e = (s -> t) with relation r(e) and head h
    a_e = (k_s W^att_{r,h}) . q_t * mu_{r,h} / sqrt(d)
    m_e =  v_s W^msg_{r,h}
    out_t = sum over the edges arriving at t of softmax_e(a_e) m_e
where k, q, v use the matrices of the *type of the node*.  Gated skip:
    y = sigmoid(g) * A(gelu(out)) + (1 - sigmoid(g)) * x     (g per node type)

``HGTLayer(dim, heads, n_types, n_rel)``
    x     (N, dim)
    ntype (N,)   long, type of every node
    src, dst (E,) long; rel (E,) long, relation of every edge
returns (N, dim).  A node without arriving edges gets out = 0.
"""
import torch
from torch import nn
import torch.nn.functional as F


class Typed(nn.Module):
    """one linear map per node type"""

    def __init__(self, n, i, o):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n, i, o) / i ** 0.5)
        self.b = nn.Parameter(torch.zeros(n, o))

    def forward(self, x, t):
        return torch.einsum("ni,nio->no", x, self.w[t]) + self.b[t]


class HGTLayer(nn.Module):
    def __init__(self, dim, heads, n_types, n_rel):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.K, self.Q, self.V, self.A = (Typed(n_types, dim, dim) for _ in range(4))
        self.att = nn.Parameter(torch.randn(n_rel, heads, self.d, self.d) / self.d ** 0.5)
        self.msg = nn.Parameter(torch.randn(n_rel, heads, self.d, self.d) / self.d ** 0.5)
        self.mu = nn.Parameter(torch.ones(n_rel, heads))
        self.g = nn.Parameter(torch.ones(n_types))

    def forward(self, x, ntype, src, dst, rel):
        N = x.size(0)
        k = self.K(x, ntype).view(N, self.h, self.d)[src]
        q = self.Q(x, ntype).view(N, self.h, self.d)[dst]
        v = self.V(x, ntype).view(N, self.h, self.d)[src]
        k = torch.einsum("ehi,ehij->ehj", k, self.att[rel])
        v = torch.einsum("ehi,ehij->ehj", v, self.msg[rel])
        a = (k * q).sum(-1) * self.mu[rel] / self.d ** 0.5          # (E, h)

        into = dst[:, None].expand_as(a)
        top = a.new_full((N, self.h), float("-inf")).scatter_reduce(0, into, a, "amax")
        w = (a - top[dst]).exp()
        z = torch.zeros_like(top).scatter_add(0, into, w)
        w = w / z[dst]
        out = x.new_zeros(N, self.h, self.d).index_add(0, dst, w[..., None] * v)
        skip = torch.sigmoid(self.g)[ntype][:, None]
        return skip * self.A(F.gelu(out.flatten(1)), ntype) + (1 - skip) * x
