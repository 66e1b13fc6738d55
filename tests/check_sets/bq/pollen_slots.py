# Slot attention for pollen slides: every slot should end up on one grain.
# after Locatello et al. 2020, "Object-Centric Learning with Slot Attention"
import torch
from torch import nn
import torch.nn.functional as F

TAXA = ["Alnus", "Betula", "Corylus", "Fraxinus", "Olea", "Platanus", "Poaceae", "Quercus"]


def grid(h, w):
    ys, xs = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
    return torch.stack([xs, ys, 1 - xs, 1 - ys], -1)


class SoftPosition(nn.Module):
    def __init__(self, channels, h, w):
        super().__init__()
        self.register_buffer("grid", grid(h, w))
        self.lin = nn.Linear(4, channels)

    def forward(self, x):               # [B, h, w, C]
        return x + self.lin(self.grid)


class GrainSlots(nn.Module):
    """
    Slots compete for pixels: the softmax runs over the SLOTS, then every slot
    takes the weighted mean of the pixels it has won (eps keeps empty slots alive).

    inputs [B, N, c] -> slots [B, S, c], attn [B, S, N] (sums to 1 over S).
    Give `noise` [B, S, c] to be reproducible.
    """

    def __init__(self, c, slots=5, iters=3, hidden=64, eps=1e-8):
        super().__init__()
        self.S, self.iters, self.eps = slots, iters, eps
        self.scale = c ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, c) * 0.1)
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, c))
        self.q = nn.Linear(c, c, bias=False)
        self.k = nn.Linear(c, c, bias=False)
        self.v = nn.Linear(c, c, bias=False)
        self.gru = nn.GRUCell(c, c)
        self.mlp = nn.Sequential(nn.Linear(c, hidden), nn.ReLU(), nn.Linear(hidden, c))
        self.n_in, self.n_slot, self.n_mlp = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)

    def forward(self, inputs, noise=None):
        B, N, c = inputs.shape
        if noise is None:
            noise = torch.randn(B, self.S, c, device=inputs.device, dtype=inputs.dtype)
        slots = self.mu + self.log_sigma.exp() * noise
        x = self.n_in(inputs)
        k, v = self.k(x) * self.scale, self.v(x)
        for _ in range(self.iters):
            before = slots
            q = self.q(self.n_slot(slots))
            attn = F.softmax(torch.einsum("bsc,bnc->bsn", q, k), dim=1)
            mean_w = (attn + self.eps) / (attn + self.eps).sum(dim=2, keepdim=True)
            update = torch.einsum("bsn,bnc->bsc", mean_w, v)
            slots = self.gru(update.reshape(-1, c), before.reshape(-1, c)).view(B, self.S, c)
            slots = slots + self.mlp(self.n_mlp(slots))
        return slots, attn


class SlideReader(nn.Module):
    def __init__(self, side=24, c=32, slots=5):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, c, 5, padding=2, stride=2), nn.ReLU(),
            nn.Conv2d(c, c, 5, padding=2, stride=2), nn.ReLU())
        self.pos = SoftPosition(c, side // 4, side // 4)
        self.slots = GrainSlots(c, slots)
        self.taxon = nn.Linear(c, len(TAXA) + 1)        # + background

    def forward(self, img):
        f = self.pos(self.conv(img).permute(0, 2, 3, 1)).flatten(1, 2)
        s, a = self.slots(f)
        return self.taxon(s), a

    @torch.no_grad()
    def count(self, img):
        logits, _ = self(img)
        hit = logits.argmax(-1)
        return {t: int((hit == i).sum()) for i, t in enumerate(TAXA)}


if __name__ == "__main__":
    print(SlideReader()(torch.rand(2, 3, 24, 24))[1].sum(1).unique())
