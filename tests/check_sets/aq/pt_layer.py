# point cloud segmentation, vector attention on kNN neighbourhoods
import torch
import torch.nn as nn


def knn_idx(xyz, k):
    """xyz [B,N,3] -> [B,N,k], nearest first (the point itself included)"""
    d = torch.cdist(xyz, xyz)
    return d.topk(k, dim=-1, largest=False)[1]


def gather(pts, idx):
    B, N, K = idx.shape
    flat = idx.reshape(B, N * K, 1).expand(-1, -1, pts.shape[-1])
    return pts.gather(1, flat).view(B, N, K, pts.shape[-1])


class PTLayer(nn.Module):
    """y_i = sum_j softmax_j( gamma(q_i - k_j + delta_ij) ) * (v_j + delta_ij)

    j runs over the k neighbours of i; the softmax is taken for each channel by
    itself (vector attention).  delta = theta(p_i - p_j).
    """

    def __init__(self, dim, k=8):
        super().__init__()
        self.k = k
        self.q = nn.Linear(dim, dim, bias=False)
        self.kk = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.theta = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.gamma = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, xyz, feat):
        idx = knn_idx(xyz, min(self.k, xyz.shape[1]))
        q = self.q(feat)
        k = gather(self.kk(feat), idx)
        v = gather(self.v(feat), idx)
        delta = self.theta(xyz[:, :, None] - gather(xyz, idx))
        a = self.gamma(q[:, :, None] - k + delta)
        a = torch.softmax(a, dim=2)
        return torch.einsum("bnkc,bnkc->bnc", a, v + delta)


class PTBlock(nn.Module):
    def __init__(self, cin, dim, k=8):
        super().__init__()
        self.up, self.down = nn.Linear(cin, dim), nn.Linear(dim, cin)
        self.layer = PTLayer(dim, k)

    def forward(self, xyz, f):
        return f + self.down(self.layer(xyz, self.up(f)))


class SegNet(nn.Module):
    def __init__(self, cin=6, dim=32, classes=13, depth=2):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(cin, dim), nn.ReLU())
        self.blocks = nn.ModuleList(PTBlock(dim, dim) for _ in range(depth))
        self.cls = nn.Linear(dim, classes)

    def forward(self, pts):
        xyz, f = pts[..., :3], self.stem(pts)
        for b in self.blocks:
            f = b(xyz, f)
        return self.cls(f)
