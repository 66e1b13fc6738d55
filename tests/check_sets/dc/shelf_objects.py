import torch
from torch import nn


class ShelfObjects(nn.Module):
    """Find the products on a shelf photo: K slots compete for the pixels.

    pixels (B, N, D) -> slots (B, K, D), share (B, K, N).
    For each pixel the slots share one unit (they compete); every slot then takes the mean of
    its pixels, weighted by its shares.
    """

    def __init__(self, D, K=5, rounds=3, eps=1e-8):
        super().__init__()
        self.K, self.rounds, self.eps = K, rounds, eps
        self.start = nn.Parameter(torch.randn(K, D))
        self.ln_in, self.ln_slot, self.ln_ff = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.q = nn.Linear(D, D, bias=False)
        self.k = nn.Linear(D, D, bias=False)
        self.v = nn.Linear(D, D, bias=False)
        self.gru = nn.GRUCell(D, D)
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, pixels):
        B, N, D = pixels.shape
        x = self.ln_in(pixels)
        k, v = self.k(x) * D ** -0.5, self.v(x)
        slots = self.start.expand(B, -1, -1)
        for _ in range(self.rounds):
            q = self.q(self.ln_slot(slots))
            share = torch.einsum("bkd,bnd->bkn", q, k).softmax(dim=1)
            w = share + self.eps
            w = w / w.sum(dim=2, keepdim=True)
            upd = w @ v
            slots = self.gru(upd.reshape(-1, D), slots.reshape(-1, D)).view(B, self.K, D)
            slots = slots + self.ff(self.ln_ff(slots))
        return slots, share
