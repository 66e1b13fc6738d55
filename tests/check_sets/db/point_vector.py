import torch
from torch import nn


class PointLayer(nn.Module):
    # Point Transformer, vector attention over the k nearest points (the point itself included)
    def __init__(self, ch=12, k=6):
        super().__init__()
        self.k = k
        self.phi, self.psi, self.alpha = nn.Linear(ch, ch), nn.Linear(ch, ch), nn.Linear(ch, ch)
        self.delta = nn.Sequential(nn.Linear(3, ch), nn.ReLU(), nn.Linear(ch, ch))
        self.gamma = nn.Sequential(nn.Linear(ch, ch), nn.ReLU(), nn.Linear(ch, ch))

    def forward(self, xyz, f):
        # xyz: B N 3, f: B N ch
        B, N, _ = xyz.shape
        gap = (xyz[:, :, None] - xyz[:, None]).square().sum(-1)
        near = gap.topk(min(self.k, N), largest=False).indices          # B N k
        row = torch.arange(B, device=xyz.device)[:, None, None]
        pos = self.delta(xyz[:, :, None] - xyz[row, near])
        w = self.gamma(self.phi(f)[:, :, None] - self.psi(f)[row, near] + pos)
        w = torch.softmax(w, dim=2)
        return f + (w * (self.alpha(f)[row, near] + pos)).sum(2)
