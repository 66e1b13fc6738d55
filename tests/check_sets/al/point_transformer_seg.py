"""Point Transformer layer (Zhao et al. 2021): vector attention among the k nearest points."""
import torch
import torch.nn as nn


def knn(xyz, k):
    """[B, N, 3] -> indices [B, N, k] (the point itself comes first)"""
    return torch.cdist(xyz, xyz).topk(k, dim=-1, largest=False).indices


def pick(x, idx):
    """x [B, N, C], idx [B, M, k] -> [B, M, k, C]"""
    b = torch.arange(x.shape[0], device=x.device)[:, None, None]
    return x[b, idx]


class VectorAttention(nn.Module):
    """y_i = sum_j rho(gamma(phi(x_i) - psi(x_j) + delta_ij)) * (alpha(x_j) + delta_ij)

    rho is a softmax over the neighbours j, for every channel by itself; delta = theta(p_i - p_j).
    """

    def __init__(self, c_in, c):
        super().__init__()
        self.up, self.down = nn.Linear(c_in, c), nn.Linear(c, c_in)
        self.phi, self.psi, self.alpha = (nn.Linear(c, c, bias=False) for _ in range(3))
        self.theta = nn.Sequential(nn.Linear(3, c), nn.ReLU(), nn.Linear(c, c))
        self.gamma = nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, c))

    def forward(self, feats, xyz, idx):
        x = self.up(feats)
        q = self.phi(x)[:, :, None]
        k, v = pick(self.psi(x), idx), pick(self.alpha(x), idx)
        delta = self.theta(xyz[:, :, None] - pick(xyz, idx))
        a = self.gamma(q - k + delta)                       # [B, N, k, C]
        a = torch.softmax(a, dim=-2)
        y = torch.einsum("bnkc,bnkc->bnc", a, v + delta)
        return self.down(y) + feats


class TransitionDown(nn.Module):
    def __init__(self, c_in, c_out, stride=4, k=16):
        super().__init__()
        self.stride, self.k = stride, k
        self.mlp = nn.Sequential(nn.Linear(c_in + 3, c_out), nn.ReLU())

    def forward(self, feats, xyz):
        keep = torch.arange(0, xyz.shape[1], self.stride, device=xyz.device)
        centre = xyz[:, keep]
        idx = torch.cdist(centre, xyz).topk(min(self.k, xyz.shape[1]), -1, largest=False).indices
        local = torch.cat([pick(xyz, idx) - centre[:, :, None], pick(feats, idx)], -1)
        return self.mlp(local).amax(2), centre


class TreeSegmenter(nn.Module):
    """Leaf / wood / ground classes of terrestrial laser scans."""

    def __init__(self, c=64, k=16, classes=3):
        super().__init__()
        self.k = k
        self.inp = nn.Linear(3, c)
        self.a1, self.a2 = VectorAttention(c, c), VectorAttention(c, 2 * c)
        self.down = TransitionDown(c, c)
        self.head = nn.Linear(2 * c, classes)

    def forward(self, xyz):
        f = self.a1(self.inp(xyz), xyz, knn(xyz, self.k))
        g, centre = self.down(f, xyz)
        g = self.a2(g, centre, knn(centre, min(self.k, centre.shape[1])))
        near = torch.cdist(xyz, centre).argmin(-1)[..., None]
        return self.head(torch.cat([f, pick(g, near)[:, :, 0]], -1))
