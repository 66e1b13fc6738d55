import torch
from torch import nn


def gather(feats, idx):
    # feats (B, N, C), idx (B, M, k) -> (B, M, k, C)
    b = torch.arange(feats.shape[0], device=feats.device)[:, None, None]
    return feats[b, idx]


class PointTransformerLayer(nn.Module):
    """Vector self-attention on the k nearest neighbours (Zhao et al. 2021): the weights are a vector for each neighbour,
    softmax(gamma(q_i - k_j + delta_ij)) over j, applied channel by channel to v_j + delta_ij.

    xyz (B, N, 3), features (B, N, dim)
    """

    def __init__(self, dim, k=4):
        super().__init__()
        self.k = k
        self.w_qs = nn.Linear(dim, dim, bias=False)
        self.w_ks = nn.Linear(dim, dim, bias=False)
        self.w_vs = nn.Linear(dim, dim, bias=False)
        self.fc_delta = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.fc_gamma = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, xyz, features):
        dists = torch.cdist(xyz, xyz)
        knn_idx = dists.argsort(dim=-1)[:, :, : self.k]
        q = self.w_qs(features)
        k, v = gather(self.w_ks(features), knn_idx), gather(self.w_vs(features), knn_idx)
        pos = self.fc_delta(xyz[:, :, None] - gather(xyz, knn_idx))
        attn = self.fc_gamma(q[:, :, None] - k + pos)
        attn = torch.softmax(attn, dim=-2)
        return torch.einsum("bmnf,bmnf->bmf", attn, v + pos)
