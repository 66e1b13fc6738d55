"""Structure module: invariant point attention (AlphaFold 2 supplement, algorithm 22).

s    [B, N, c_s]      single representation
z    [B, N, N, c_z]   pair representation, z[:, i, j] belongs to query i and key j
rots [B, N, 3, 3], trans [B, N, 3]   backbone frames, x_global = R x_local + t
mask [B, N]           1 for residues that exist

The weights are softmax_j( w_L * ( q.k / sqrt(c) + b_ij - gamma_h * w_C / 2 * sum_p |..|^2 ) )
with w_L = sqrt(1/3), w_C = sqrt(2 / (9 P)) and gamma_h = softplus(head weight).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class InvariantPointAttention(nn.Module):
    def __init__(self, c_s, c_z, c_hidden=16, no_heads=12, no_qk_points=4, no_v_points=8, eps=1e-8):
        super().__init__()
        self.c, self.h, self.pq, self.pv, self.eps = c_hidden, no_heads, no_qk_points, no_v_points, eps
        self.linear_q = nn.Linear(c_s, no_heads * c_hidden)
        self.linear_kv = nn.Linear(c_s, 2 * no_heads * c_hidden)   # per head: keys then values
        self.linear_q_points = nn.Linear(c_s, no_heads * no_qk_points * 3)
        self.linear_kv_points = nn.Linear(c_s, no_heads * (no_qk_points + no_v_points) * 3)
        self.linear_b = nn.Linear(c_z, no_heads)
        self.head_weights = nn.Parameter(torch.full((no_heads,), math.log(math.e - 1)))
        self.linear_out = nn.Linear(no_heads * (c_hidden + c_z + no_v_points * 4), c_s)

    @staticmethod
    def _to_global(p, rots, trans):
        """p: [B, N, H, P, 3] in local frames"""
        return torch.einsum("bnij,bnhpj->bnhpi", rots, p) + trans[:, :, None, None, :]

    @staticmethod
    def _to_local(p, rots, trans):
        return torch.einsum("bnji,bnhpj->bnhpi", rots, p - trans[:, :, None, None, :])

    def forward(self, s, z, rots, trans, mask):
        B, N, _ = s.shape
        H, C = self.h, self.c

        q = self.linear_q(s).view(B, N, H, C)
        k, v = self.linear_kv(s).view(B, N, H, 2 * C).split(C, dim=-1)

        q_pts = self._to_global(self.linear_q_points(s).view(B, N, H, self.pq, 3), rots, trans)
        kv_pts = self._to_global(
            self.linear_kv_points(s).view(B, N, H, self.pq + self.pv, 3), rots, trans)
        k_pts, v_pts = kv_pts.split([self.pq, self.pv], dim=-2)

        # scalar part and pair bias, both times sqrt(1/3)
        a = torch.einsum("bihc,bjhc->bhij", q, k) * math.sqrt(1.0 / (3 * C))
        a = a + math.sqrt(1.0 / 3) * self.linear_b(z).permute(0, 3, 1, 2)

        # point part
        d2 = (q_pts[:, :, None] - k_pts[:, None]).pow(2).sum(-1)          # [B, i, j, H, P]
        gamma = F.softplus(self.head_weights) * math.sqrt(1.0 / (3 * (self.pq * 9.0 / 2)))
        pt = -0.5 * (d2 * gamma[:, None]).sum(-1)
        a = a + pt.permute(0, 3, 1, 2)

        pair_ok = (mask[:, :, None] * mask[:, None, :]).bool()[:, None]
        a = a.masked_fill(~pair_ok, torch.finfo(a.dtype).min)
        a = torch.softmax(a, dim=-1)

        o = torch.einsum("bhij,bjhc->bihc", a, v).reshape(B, N, -1)
        o_pt = torch.einsum("bhij,bjhpx->bihpx", a, v_pts)
        o_pt = self._to_local(o_pt, rots, trans)
        o_norm = torch.sqrt(o_pt.pow(2).sum(-1) + self.eps).reshape(B, N, -1)
        o_pair = torch.einsum("bhij,bijc->bihc", a, z).reshape(B, N, -1)
        return self.linear_out(torch.cat([o, o_pt.reshape(B, N, -1), o_norm, o_pair], dim=-1))


class BackboneUpdate(nn.Module):
    """Quaternion (1, b, c, d) and a shift, composed onto the present frames."""

    def __init__(self, c_s):
        super().__init__()
        self.linear = nn.Linear(c_s, 6)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, s, rots, trans):
        upd = self.linear(s)
        quat = F.normalize(F.pad(upd[..., :3], (1, 0), value=1.0), dim=-1)
        w, x, y, z = quat.unbind(-1)
        R = torch.stack([
            1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1).unflatten(-1, (3, 3))
        trans = trans + torch.einsum("bnij,bnj->bni", rots, upd[..., 3:])
        return rots @ R, trans


class StructureBlock(nn.Module):
    def __init__(self, c_s=64, c_z=32, **kw):
        super().__init__()
        self.ipa = InvariantPointAttention(c_s, c_z, **kw)
        self.norm = nn.LayerNorm(c_s)
        self.transition = nn.Sequential(nn.Linear(c_s, c_s), nn.ReLU(), nn.Linear(c_s, c_s))
        self.update = BackboneUpdate(c_s)

    def forward(self, s, z, rots, trans, mask):
        s = self.norm(s + self.ipa(s, z, rots, trans, mask))
        s = s + self.transition(s)
        return (s, *self.update(s, rots, trans))
