"""Object slots for table-top manipulation (Slot Attention, Locatello et al. 2020).

Unlike ordinary attention the softmax runs over the SLOTS, which compete for each pixel;
afterwards each slot takes the weighted mean over the pixels.
"""
import torch
from torch import nn


class SlotAttention(nn.Module):
    """pixels [B, N, D], slots [B, K, D] -> (slots [B, K, D], masks [B, K, N])"""

    def __init__(self, dim, iters=3, eps=1e-8):
        super().__init__()
        self.iters, self.eps, self.scale = iters, eps, dim ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.norm_in, self.norm_slot, self.norm_mlp = (nn.LayerNorm(dim) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, pixels, slots):
        b, n_slots, d = slots.shape
        x = self.norm_in(pixels)
        k, v = self.to_k(x), self.to_v(x)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slot(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            share = dots.softmax(dim=1) + self.eps
            mean = share / share.sum(dim=-1, keepdim=True)
            upd = torch.einsum("bij,bjd->bid", mean, v)
            slots = self.gru(upd.reshape(-1, d), prev.reshape(-1, d)).view(b, n_slots, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, share


class GraspProposer(nn.Module):
    def __init__(self, dim=32, slots=5):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(3, dim, 5, 2, 2), nn.ReLU(), nn.Conv2d(dim, dim, 5, 2, 2))
        self.mu = nn.Parameter(torch.randn(slots, dim))
        self.slot = SlotAttention(dim)
        self.pose = nn.Linear(dim, 7)

    def forward(self, img):
        f = self.cnn(img).flatten(2).transpose(1, 2)
        s, m = self.slot(f, self.mu.expand(len(img), -1, -1))
        return self.pose(s), m


if __name__ == "__main__":
    p, m = GraspProposer()(torch.randn(2, 3, 16, 16))
    print(p.shape, m.shape)
