"""Point Transformer layer (Zhao et al., ICCV 2021): vector attention in a k-NN neighbourhood.

    y_i = sum_{j in N(i)} softmax_j( gamma(q_i - k_j + delta_ij) ) * (v_j + delta_ij)
    delta_ij = theta(p_i - p_j)

The softmax runs over the neighbours, separately for each channel.  Neighbours (the point itself is
one of them) are searched inside each cloud of the batch.
"""
import torch
import torch.nn as nn


def knn(xyz, k):
    """(B, N, 3) -> indices (B, N, k) of the nearest points of the same cloud"""
    return torch.cdist(xyz, xyz).topk(k, dim=-1, largest=False).indices


def group(feat, idx):
    """feat (B, N, C), idx (B, N, k) -> (B, N, k, C)"""
    B = feat.size(0)
    batch = torch.arange(B, device=feat.device).view(B, 1, 1)
    return feat[batch, idx]


class PointTransformerLayer(nn.Module):
    def __init__(self, dim=16, k=4):
        super().__init__()
        self.k = k
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.theta = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.gamma = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, xyz, feat):
        """xyz (B, N, 3), feat (B, N, dim) -> (B, N, dim)"""
        B, N, C = feat.shape
        idx = knn(xyz, min(self.k, N))
        q = self.to_q(feat)
        k = group(self.to_k(feat), idx)
        v = self.to_v(feat).reshape(B * N, C)[idx]
        delta = self.theta(xyz.unsqueeze(2) - group(xyz, idx))

        w = self.gamma(q.unsqueeze(2) - k + delta).softmax(dim=2)
        return (w * (v + delta)).sum(dim=2)


class PointTransformerBlock(nn.Module):
    def __init__(self, dim=16, k=4):
        super().__init__()
        self.pre = nn.Linear(dim, dim)
        self.layer = PointTransformerLayer(dim, k)
        self.post = nn.Linear(dim, dim)

    def forward(self, xyz, feat):
        return feat + self.post(self.layer(xyz, self.pre(feat)))


if __name__ == "__main__":
    blk = PointTransformerBlock()
    print(blk(torch.randn(2, 10, 3), torch.randn(2, 10, 16)).shape)
