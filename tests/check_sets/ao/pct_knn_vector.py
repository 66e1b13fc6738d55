"""point transformer (Zhao et al.) layer for ModelNet40, my own rewrite for the 3D vision class

    y_i = sum_j softmax_j( gamma( phi(x_i) - psi(x_j) + delta_ij ) ) * ( alpha(x_j) + delta_ij )

j runs over the k nearest points of i. Weights are vectors, one per channel.
"""
import torch
import torch.nn as nn


def square_dist(a, b):
    # a [B,N,3]  b [B,M,3]
    return ((a[:, :, None] - b[:, None]) ** 2).sum(-1)


def gather_pts(x, idx):
    """x [B,N,C], idx [B,M,K] -> [B,M,K,C]"""
    B = x.shape[0]
    bi = torch.arange(B, device=x.device).view(B, 1, 1)
    return x[bi, idx]


def fps(xyz, m):
    B, N, _ = xyz.shape
    out = torch.zeros(B, m, dtype=torch.long, device=xyz.device)
    dist = torch.full((B, N), 1e10, device=xyz.device, dtype=xyz.dtype)
    far = torch.zeros(B, dtype=torch.long, device=xyz.device)
    b = torch.arange(B, device=xyz.device)
    for i in range(m):
        out[:, i] = far
        d = ((xyz - xyz[b, far][:, None]) ** 2).sum(-1)
        dist = torch.minimum(dist, d)
        far = dist.argmax(-1)
    return out


class PTLayer(nn.Module):
    def __init__(self, dim_in, dim, k=16):
        super().__init__()
        self.k = k
        self.fc_in = nn.Linear(dim_in, dim)
        self.fc_out = nn.Linear(dim, dim_in)
        self.phi = nn.Linear(dim, dim, bias=False)
        self.psi = nn.Linear(dim, dim, bias=False)
        self.alpha = nn.Linear(dim, dim, bias=False)
        self.delta = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.gamma = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, xyz, feat):
        k = min(self.k, xyz.shape[1])
        idx = square_dist(xyz, xyz).topk(k, dim=-1, largest=False)[1]
        near = gather_pts(xyz, idx)
        x = self.fc_in(feat)
        q = self.phi(x)
        kk = gather_pts(self.psi(x), idx)
        v = gather_pts(self.alpha(x), idx)
        pos = self.delta(xyz[:, :, None] - near)
        a = self.gamma(q[:, :, None] - kk + pos)
        a = torch.softmax(a, dim=-2)
        y = torch.einsum('bnkc,bnkc->bnc', a, v + pos)
        return self.fc_out(y) + feat


class Down(nn.Module):
    def __init__(self, cin, cout, ratio=4, k=16):
        super().__init__()
        self.ratio, self.k = ratio, k
        self.mlp = nn.Sequential(nn.Linear(cin + 3, cout), nn.ReLU(), nn.Linear(cout, cout))

    def forward(self, xyz, f):
        m = max(1, xyz.shape[1] // self.ratio)
        sel = fps(xyz, m)
        new = gather_pts(xyz, sel[:, :, None]).squeeze(2)
        idx = square_dist(new, xyz).topk(min(self.k, xyz.shape[1]), largest=False)[1]
        g = torch.cat([gather_pts(xyz, idx) - new[:, :, None], gather_pts(f, idx)], -1)
        return new, self.mlp(g).max(2)[0]


class PTCls(nn.Module):
    def __init__(self, n_cls=40, width=32):
        super().__init__()
        self.stem = nn.Linear(3, width)
        self.l1 = PTLayer(width, 64)
        self.d = Down(width, width * 2)
        self.l2 = PTLayer(width * 2, 64)
        self.head = nn.Linear(width * 2, n_cls)

    def forward(self, xyz):
        f = self.l1(xyz, self.stem(xyz))
        xyz, f = self.d(xyz, f)
        return self.head(self.l2(xyz, f).mean(1))
