"""Objects of an arcade screen without labels: Slot Attention (Locatello et al. 2020).

SlotAttention(n_slots, dim, iters)(x, slots): x [B, N, dim] pixel features, slots
[B, n_slots, dim] the start values -> slots [B, n_slots, dim].

In each iteration
    a[b, n, s]  = softmax over the SLOTS of  k_n . q_s / sqrt(dim)     (slots compete)
    w           = (a + eps) / sum over the PIXELS of (a + eps)
    update_s    = sum_n w[n, s] v_n
followed by a GRU cell and a residual MLP.
"""
import torch
from torch import nn


class SlotAttention(nn.Module):
    def __init__(self, n_slots, dim, iters=3, eps=1e-8):
        super().__init__()
        self.n_slots, self.iters, self.eps = n_slots, iters, eps
        self.scale = dim ** -0.5
        self.norm_in, self.norm_s, self.norm_m = (nn.LayerNorm(dim) for _ in range(3))
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def compete(self, k, q):
        logits = torch.einsum("bnd,bsd->bns", k, q) * self.scale
        a = logits.softmax(dim=-1) + self.eps
        return a / a.sum(dim=1, keepdim=True)

    def forward(self, x, slots):
        B, S, D = slots.shape
        x = self.norm_in(x)
        k, v = self.k(x), self.v(x)
        for _ in range(self.iters):
            q = self.q(self.norm_s(slots))
            upd = torch.einsum("bns,bnd->bsd", self.compete(k, q), v)
            slots = self.gru(upd.reshape(-1, D), slots.reshape(-1, D)).view(B, S, D)
            slots = slots + self.mlp(self.norm_m(slots))
        return slots


def grid_features(img, proj):
    """img [B, 3, H, W] -> [B, H*W, dim], four border distances appended to colours;
    proj: nn.Linear(7, dim)"""
    B, _, H, W = img.shape
    y = torch.linspace(0, 1, H).view(1, H, 1).expand(B, H, W)
    x = torch.linspace(0, 1, W).view(1, 1, W).expand(B, H, W)
    g = torch.stack([y, x, 1 - y, 1 - x], 1)
    return proj(torch.cat([img, g], 1).flatten(2).transpose(1, 2))
