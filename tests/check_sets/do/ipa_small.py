"""Invariant point attention, small version (protein backbone refinement).

s     (B, N, Cs)        single representation
z     (B, N, N, Cz)     pair representation, z[:, i, j] used by query i, key j
rot   (B, N, 3, 3), trans (B, N, 3)   backbone frames: x_global = rot @ x_local + trans
mask  (B, N) bool       True = residue exists (at least one per chain)

logit_ij^h = w_L ( q.k/sqrt(c) + b_ij^h - gamma^h w_C/2 * sum_p |T_i q_p - T_j k_p|^2 )
w_L = sqrt(1/3), w_C = sqrt(2 / (9 P)), gamma = softplus(raw).
Softmax over j, non-existing j excluded.  The output is invariant under a
common rotation + translation of all frames.
"""
import math
import torch
from torch import nn
import torch.nn.functional as F


class InvariantPointAttention(nn.Module):
    def __init__(self, cs, cz, heads=3, c=8, n_qk=4, n_v=5):
        super().__init__()
        self.H, self.c, self.P, self.V = heads, c, n_qk, n_v
        self.lin_q = nn.Linear(cs, heads * c, bias=False)
        self.lin_kv = nn.Linear(cs, heads * 2 * c, bias=False)
        self.lin_qp = nn.Linear(cs, heads * n_qk * 3, bias=False)
        self.lin_kvp = nn.Linear(cs, heads * (n_qk + n_v) * 3, bias=False)
        self.lin_b = nn.Linear(cz, heads, bias=False)
        self.raw = nn.Parameter(torch.full((heads,), 0.541324854612918))
        self.out = nn.Linear(heads * (c + 4 * n_v + cz), cs)

    def to_global(self, pts, rot, trans):
        # pts (B, N, H, P, 3)
        return torch.einsum("bnxy,bnhpy->bnhpx", rot, pts) + trans[:, :, None, None, :]

    def to_local(self, pts, rot, trans):
        return torch.einsum("bnyx,bnhpy->bnhpx", rot, pts - trans[:, :, None, None, :])

    def forward(self, s, z, rot, trans, mask):
        B, N, _ = s.shape
        H = self.H
        q = self.lin_q(s).view(B, N, H, self.c)
        k, v = self.lin_kv(s).view(B, N, H, 2 * self.c).split(self.c, dim=-1)
        qp = self.to_global(self.lin_qp(s).view(B, N, H, self.P, 3), rot, trans)
        kvp = self.to_global(self.lin_kvp(s).view(B, N, H, self.P + self.V, 3), rot, trans)
        kp, vp = kvp.split([self.P, self.V], dim=3)

        w_l, w_c = math.sqrt(1 / 3), math.sqrt(2 / (9 * self.P))
        logit = torch.einsum("bihc,bjhc->bhij", q, k) / math.sqrt(self.c)
        logit = logit + self.lin_b(z).permute(0, 3, 1, 2)
        dist2 = (qp[:, :, None] - kp[:, None]).square().sum(dim=(-1, -2))     # (B, i, j, H)
        gamma = F.softplus(self.raw)
        logit = logit - 0.5 * w_c * (gamma * dist2).permute(0, 3, 1, 2)
        logit = (w_l * logit).masked_fill(~mask[:, None, None, :], float("-inf"))
        a = logit.softmax(dim=-1)

        o = torch.einsum("bhij,bjhc->bihc", a, v)
        op = self.to_local(torch.einsum("bhij,bjhpx->bihpx", a, vp), rot, trans)
        norm = op.square().sum(-1).add(1e-8).sqrt()
        oz = torch.einsum("bhij,bijc->bihc", a, z)
        feats = torch.cat([o, op.flatten(3), norm, oz], dim=-1)
        return self.out(feats.flatten(2)) * mask[..., None]
