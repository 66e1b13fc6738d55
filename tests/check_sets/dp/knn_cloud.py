"""Local attention on point clouds: each point reads its k nearest points.

For point i of cloud b, with N(i) its k nearest points in the same cloud (itself
included), and d the feature width
    y_i = x_i + W_o sum_{j in N(i)} a_ij (v_j + pos(p_i - p_j))
    a_ij = softmax over j in N(i) of  q_i . (k_j + pos(p_i - p_j)) / sqrt(d)

``LocalRead(d, k)``
    xyz  (B, N, 3) coordinates
    feat (B, N, d)
returns (B, N, d).  Clouds of a batch are independent of each other.
"""
import torch
from torch import nn


class LocalRead(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.k = k
        self.wq = nn.Linear(d, d, bias=False)
        self.wk = nn.Linear(d, d, bias=False)
        self.wv = nn.Linear(d, d, bias=False)
        self.wo = nn.Linear(d, d)
        self.pos = nn.Sequential(nn.Linear(3, d), nn.ReLU(), nn.Linear(d, d))

    @torch.no_grad()
    def neighbours(self, xyz):
        return torch.cdist(xyz, xyz).topk(self.k, largest=False).indices   # (B, N, k)

    def forward(self, xyz, feat):
        B, N, d = feat.shape
        idx = self.neighbours(xyz)
        base = torch.arange(B, device=xyz.device).view(B, 1, 1) * N
        flat = (idx + base).view(-1)
        q = self.wq(feat)
        k = self.wk(feat).view(B * N, d)[flat].view(B, N, self.k, d)
        v = self.wv(feat).view(B * N, d)[idx.view(-1)].view(B, N, self.k, d)
        near = xyz.reshape(B * N, 3)[flat].view(B, N, self.k, 3)
        r = self.pos(xyz.unsqueeze(2) - near)
        a = torch.einsum("bnd,bnkd->bnk", q, k + r) * d ** -0.5
        a = a.softmax(dim=-1)
        return feat + self.wo(torch.einsum("bnk,bnkd->bnd", a, v + r))
