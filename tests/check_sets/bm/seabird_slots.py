"""Counting guillemots on cliff ledges: object slots over CNN features.

A frame from the ledge camera gives N = h*w feature vectors; S slots compete
for them.  As in Locatello et al. (2020) the competition is *between slots*:
for every pixel the weights over the slots sum to one.  The update of a slot is
then the weighted mean of the pixels, so the weights are normalised a second
time, over the pixels.
"""
import torch
from torch import nn


class Backbone(nn.Sequential):
    def __init__(self, c=32):
        super().__init__(
            nn.Conv2d(3, c, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(c, c, 5, stride=2, padding=2), nn.ReLU(),
        )


def soft_grid(h, w, device=None):
    ys, xs = torch.linspace(0, 1, h, device=device), torch.linspace(0, 1, w, device=device)
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack([gy, gx, 1 - gy, 1 - gx], dim=-1)


class LedgeSlots(nn.Module):
    """
    Parameters
    ----------
    n_slots : number of slots when no initial slots are passed in
    dim : feature and slot width
    rounds : number of refinement iterations
    eps : keeps a slot that owns no pixel from dividing by zero
    """

    def __init__(self, n_slots, dim, rounds=3, eps=1e-8):
        super().__init__()
        self.n_slots, self.rounds, self.eps = n_slots, rounds, eps
        self.mu = nn.Parameter(torch.randn(1, 1, dim) * dim ** -0.5)
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.q = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.ln_in, self.ln_slot, self.ln_mlp = (nn.LayerNorm(dim) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def start(self, b):
        noise = torch.randn(b, self.n_slots, self.mu.shape[-1], device=self.mu.device)
        return self.mu + self.log_sigma.exp() * noise

    def forward(self, feats, slots=None):
        """feats [b, n, dim] -> (slots [b, s, dim], ownership [b, s, n])

        ownership[:, :, i] sums to one over the slots.
        """
        b, n, dim = feats.shape
        feats = self.ln_in(feats)
        k, v = self.k(feats), self.v(feats)
        slots = self.start(b) if slots is None else slots
        for _ in range(self.rounds):
            old = slots
            q = self.q(self.ln_slot(slots)) * dim ** -0.5
            own = torch.einsum("bsd,bnd->bsn", q, k).softmax(dim=1)
            mean_w = own + self.eps
            mean_w = mean_w / mean_w.sum(dim=-1, keepdim=True)
            upd = torch.einsum("bsn,bnd->bsd", mean_w, v)
            slots = self.gru(upd.flatten(0, 1), old.flatten(0, 1)).view_as(old)
            slots = slots + self.mlp(self.ln_mlp(slots))
        return slots, own


class LedgeCounter(nn.Module):
    def __init__(self, n_slots=12, c=32):
        super().__init__()
        self.cnn = Backbone(c)
        self.pos = nn.Linear(4, c)
        self.slots = LedgeSlots(n_slots, c)
        self.is_bird = nn.Linear(c, 1)

    def forward(self, img):
        f = self.cnn(img).permute(0, 2, 3, 1)
        f = f + self.pos(soft_grid(f.shape[1], f.shape[2], f.device))
        s, own = self.slots(f.flatten(1, 2))
        return self.is_bird(s).sigmoid().sum(dim=(1, 2)), own
