"""Heterogeneous graph transformer convolution (after Hu et al., HGT), small-graph version.

    feats  {node type: (N_type, D)}
    edges  {(source type, relation, target type): (2, E) long}, rows: source index, target index
    out    {node type: (N_type, D)}

Every node type has its own K, Q, V and output maps; every relation has per-head matrices W_att and
W_msg (d x d) and a prior mu per head:

    logit = ( K(s) W_att ) . Q(t) * mu / sqrt(d)         message = V(s) W_msg

The softmax for a target node runs over ALL its incoming edges, whatever their relation.
Nodes without incoming edges receive a zero message.  Output: x + A_type( gelu(message) ).
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


class HGTConv(nn.Module):
    def __init__(self, D, heads, types, relations):
        super().__init__()
        self.h, self.d = heads, D // heads
        mk = lambda: nn.ModuleDict({t: nn.Linear(D, D) for t in types})
        self.K, self.Q, self.V, self.A = mk(), mk(), mk(), mk()
        par = lambda *s: nn.Parameter(torch.randn(*s) / math.sqrt(self.d))
        self.w_att = nn.ParameterDict({r: par(heads, self.d, self.d) for r in relations})
        self.w_msg = nn.ParameterDict({r: par(heads, self.d, self.d) for r in relations})
        self.mu = nn.ParameterDict({r: nn.Parameter(torch.ones(heads)) for r in relations})

    def forward(self, feats, edges):
        out = {}
        for ty, x in feats.items():
            q = self.Q[ty](x).view(-1, self.h, self.d)
            logit, msg, into = [], [], []
            for (src, rel, dst), (s, t) in edges.items():
                if dst != ty or s.numel() == 0:
                    continue
                k = self.K[src](feats[src]).view(-1, self.h, self.d)[s]
                v = self.V[src](feats[src]).view(-1, self.h, self.d)[s]
                k = torch.einsum("ehd,hdf->ehf", k, self.w_att[rel])
                logit.append((k * q[t]).sum(-1) * self.mu[rel] / math.sqrt(self.d))
                msg.append(torch.einsum("ehd,hdf->ehf", v, self.w_msg[rel]))
                into.append(t)
            agg = torch.zeros_like(q)
            if into:
                logit, msg, into = torch.cat(logit), torch.cat(msg), torch.cat(into)
                for n in into.unique():
                    pick = into == n
                    a = F.softmax(logit[pick], dim=0)                    # edges x heads
                    agg[n] = torch.einsum("eh,ehd->hd", a, msg[pick])
            out[ty] = x + self.A[ty](F.gelu(agg.flatten(1)))
        return out
