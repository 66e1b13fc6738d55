"""Non-local block, "dot product" instantiation (Wang et al., CVPR 2018, eq. 4), for
video features.

    y_i = 1/N sum_j (theta(x_i) . phi(x_j)) g(x_j)
    z_i = W y_i + x_i

f(x_i, x_j) is the plain dot product and C(x) = N, the number of positions that are summed
over: there is no softmax in this version, which is why the matrix product may be
reassociated (phi^T g first) and costs O(N c^2) rather than O(N^2 c).

With sub=True, phi and g are max-pooled 2x2 in space and N is the number of pooled
positions.

x: (B, C, T, H, W) -> same shape. H and W even if sub.
"""
import torch
import torch.nn as nn


class NLdot(nn.Module):
    def __init__(s, C, ci=None, sub=True):
        super().__init__()
        ci = ci or C // 2
        s.th = nn.Conv3d(C, ci, 1)
        s.ph = nn.Conv3d(C, ci, 1)
        s.g = nn.Conv3d(C, ci, 1)
        s.W = nn.Conv3d(ci, C, 1)
        s.mp = nn.MaxPool3d((1, 2, 2)) if sub else nn.Identity()

    def forward(s, x):
        B = x.shape[0]
        th = s.th(x).flatten(2)                       # B c M
        ph = s.mp(s.ph(x)).flatten(2)                 # B c N
        g = s.mp(s.g(x)).flatten(2)                   # B c N
        kv = torch.bmm(ph, g.transpose(1, 2))         # B c c'
        y = torch.bmm(kv.transpose(1, 2), th) / ph.shape[-1]
        return x + s.W(y.view(B, -1, *x.shape[2:]))
