"""Point transformer layer (vector attention over k nearest neighbours), plain torch version."""
import torch
from torch import nn


def square_distance(a, b):
    return ((a[:, :, None] - b[:, None]) ** 2).sum(-1)


def index_points(points, idx):
    """points (B, N, C), idx (B, S, K) -> (B, S, K, C)"""
    B, S, K = idx.shape
    flat = idx.reshape(B, S * K, 1).expand(-1, -1, points.size(-1))
    return torch.gather(points, 1, flat).view(B, S, K, -1)


class PointTransformerLayer(nn.Module):
    """
    y_i = sum_{j in kNN(i)} rho( gamma( phi(x_i) - psi(x_j) + delta_ij ) ) * ( alpha(x_j) + delta_ij )
    delta_ij = theta(p_i - p_j)

    rho is a softmax over the neighbours, separately for every channel; gamma ends in d / share_planes
    channels and the weights are shared by groups of channels (channel c uses weight c % (d / share)).
    """

    def __init__(self, d_points, d_model, k=16, share_planes=1):
        super().__init__()
        self.k, self.share = k, share_planes
        self.fc_in = nn.Linear(d_points, d_model)
        self.fc_out = nn.Linear(d_model, d_points)
        self.theta = nn.Sequential(nn.Linear(3, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        mid = d_model // share_planes
        self.gamma = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, mid))
        self.phi = nn.Linear(d_model, d_model, bias=False)
        self.psi = nn.Linear(d_model, d_model, bias=False)
        self.alpha = nn.Linear(d_model, d_model, bias=False)

    def forward(self, xyz, feats):
        dists = square_distance(xyz, xyz)
        knn = dists.topk(min(self.k, xyz.size(1)), dim=-1, largest=False).indices     # B, N, k
        x = self.fc_in(feats)
        q = self.phi(x)
        k = index_points(self.psi(x), knn)
        v = index_points(self.alpha(x), knn)
        delta = self.theta(xyz[:, :, None] - index_points(xyz, knn))

        w = self.gamma(q[:, :, None] - k + delta)          # B, N, k, mid
        w = torch.softmax(w, dim=2)
        val = v + delta
        B, N, K, C = val.shape
        y = (val.view(B, N, K, self.share, -1) * w.unsqueeze(3)).sum(2).reshape(B, N, C)
        return self.fc_out(y) + feats, w


class TinySegNet(nn.Module):
    def __init__(self, n_class, c=32):
        super().__init__()
        self.stem = nn.Linear(3, c)
        self.l1 = PointTransformerLayer(c, 64, k=8)
        self.l2 = PointTransformerLayer(c, 64, k=8, share_planes=8)
        self.head = nn.Linear(c, n_class)

    def forward(self, xyz):
        x = self.stem(xyz)
        x, _ = self.l1(xyz, x)
        x, _ = self.l2(xyz, x)
        return self.head(x)


if __name__ == "__main__":
    print(TinySegNet(5)(torch.rand(2, 40, 3)).shape)
