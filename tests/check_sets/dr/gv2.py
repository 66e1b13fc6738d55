"""gv2: graph layer with dynamic attention on an edge list (GATv2, Brody et al.).

    z_uv  = a_h . leaky_relu(L x_u + R x_v)            one score per edge and head
    al_uv = softmax of z over the edges that END in v
    y_v   = concat_h  sum_u al_uv (L x_u)  + b

X  : (N, f) node features
E  : (2, M) integer edges, E[0] = u (sender), E[1] = v (receiver). A self loop is
     appended for each node here, so that each node has at least one incoming edge;
     E itself must not contain self loops.
out: (N, h*c)  or (N, c) averaged over the heads when cat=False
"""
import torch
from torch import nn
import torch.nn.functional as F


class Gv2(nn.Module):
    def __init__(s, f, c, h=4, cat=True, slope=0.2, p=0.0):
        super().__init__()
        s.h, s.c, s.cat, s.slope, s.p = h, c, cat, slope, p
        s.L = nn.Linear(f, h * c)
        s.R = nn.Linear(f, h * c)
        s.a = nn.Parameter(torch.empty(h, c))
        s.b = nn.Parameter(torch.zeros(h * c if cat else c))
        nn.init.xavier_uniform_(s.a)

    def forward(s, X, E):
        N = X.size(0)
        i = torch.arange(N, device=X.device)
        u = torch.cat([E[0], i])
        v = torch.cat([E[1], i])
        l = s.L(X).view(N, s.h, s.c)
        r = s.R(X).view(N, s.h, s.c)

        z = (F.leaky_relu(l[u] + r[v], s.slope) * s.a).sum(-1)          # (M+N, h)
        vh = v[:, None].expand(-1, s.h)
        top = z.new_full((N, s.h), float("-inf"))
        top = top.scatter_reduce(0, vh, z.detach(), reduce="amax")
        w = (z - top[v]).exp()
        den = w.new_zeros(N, s.h).index_add(0, v, w)
        w = F.dropout(w / den[v], s.p, s.training)

        y = l.new_zeros(N, s.h, s.c).index_add(0, v, w[..., None] * l[u])
        return (y.flatten(1) if s.cat else y.mean(1)) + s.b
