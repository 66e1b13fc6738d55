"""Object-centric encoder: slots compete for pixels (Locatello et al. 2020).

Note on the axes: the competition is between slots, so the weights of one pixel
sum to one over the slots; the update of a slot is then the *weighted mean* over
the pixels.
"""
import torch
from torch import nn


def soft_grid(h, w):
    ys = torch.linspace(0, 1, h)
    xs = torch.linspace(0, 1, w)
    g = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1)
    return torch.cat([g, 1 - g], -1)[None]


class GridEmbed(nn.Module):
    def __init__(self, dim, hw):
        super().__init__()
        self.lin = nn.Linear(4, dim)
        self.register_buffer("grid", soft_grid(*hw))

    def forward(self, x):
        return x + self.lin(self.grid)


class SlotBinder(nn.Module):
    """
    feats   [B, N, D]
    valid   optional bool [B, N], True where the pixel exists (padded images)
    returns slots [B, K, D] and the attention of the last round [B, K, N]
    """

    def __init__(self, n_slots, dim, rounds=3, eps=1e-8, hidden=None):
        super().__init__()
        self.n_slots, self.rounds, self.eps = n_slots, rounds, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        hidden = hidden or 2 * dim
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_feats, self.norm_slots = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def init_slots(self, b, generator=None):
        shape = (b, self.n_slots, self.mu.size(-1))
        noise = torch.randn(shape, generator=generator, dtype=self.mu.dtype).to(self.mu.device)
        return self.mu + self.log_sigma.exp() * noise

    def compete(self, slots, k, v, valid=None):
        q = self.to_q(self.norm_slots(slots))
        dots = torch.einsum("bkd,bnd->bkn", q, k) * self.scale
        attn = dots.softmax(dim=1) + self.eps
        if valid is not None:
            attn = attn * valid[:, None, :].to(attn.dtype)
        mean = attn / attn.sum(dim=-1, keepdim=True).clamp_min(self.eps)
        return torch.einsum("bkn,bnd->bkd", mean, v), attn

    def forward(self, feats, valid=None, slots=None):
        b = feats.size(0)
        feats = self.norm_feats(feats)
        k, v = self.to_k(feats), self.to_v(feats)
        if slots is None:
            slots = self.init_slots(b)
        for _ in range(self.rounds):
            prev = slots
            upd, attn = self.compete(slots, k, v, valid)
            slots = self.gru(upd.flatten(0, 1), prev.flatten(0, 1)).view_as(prev)
            slots = slots + self.mlp(slots)
        return slots, attn


class Tokenizer(nn.Module):
    def __init__(self, hw=(16, 16), dim=32, n_slots=5):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, dim, 5, padding=2), nn.ReLU(), nn.Conv2d(dim, dim, 5, padding=2), nn.ReLU())
        self.pos = GridEmbed(dim, hw)
        self.slots = SlotBinder(n_slots, dim)

    def forward(self, img):
        f = self.conv(img).permute(0, 2, 3, 1)
        return self.slots(self.pos(f).flatten(1, 2))[0]
