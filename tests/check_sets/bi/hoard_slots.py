"""
hoard_slots - split a coin hoard into issues without labels
(object-centric, after Locatello et al., Slot Attention)

The slots COMPETE for the coins: softmax runs over the slots, and then each slot takes
the weighted mean of its coins (weights renormalised over the coins).  That is not
the usual direction of a transformer, on purpose.
"""
import torch
from torch import nn
from torch.nn import init


class SlotAttention(nn.Module):
    def __init__(self, num_slots, dim, iters=3, eps=1e-8, hidden_dim=64):
        super().__init__()
        self.num_slots = num_slots
        self.iters = iters
        self.eps = eps
        self.scale = dim ** -0.5

        self.slots_init = nn.Parameter(torch.empty(1, num_slots, dim))
        init.xavier_uniform_(self.slots_init)

        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden_dim), nn.ReLU(inplace=True), nn.Linear(hidden_dim, dim)
        )
        self.norm_coins = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)

    def step(self, slots, k, v):
        b, s, d = slots.shape
        q = self.to_q(self.norm_slots(slots))
        dots = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
        attn = dots.softmax(dim=1) + self.eps
        share = attn / attn.sum(dim=-1, keepdim=True)
        updates = torch.einsum("bsn,bnd->bsd", share, v)
        new = self.gru(updates.reshape(-1, d), slots.reshape(-1, d)).view(b, s, d)
        return new + self.mlp(self.norm_mlp(new)), attn

    def forward(self, coins):
        """coins (B, N, dim) -> slots (B, S, dim), assignment (B, S, N)"""
        coins = self.norm_coins(coins)
        k, v = self.to_k(coins), self.to_v(coins)
        slots = self.slots_init.expand(coins.shape[0], -1, -1)
        for _ in range(self.iters):
            slots, attn = self.step(slots, k, v)
        return slots, attn


class HoardModel(nn.Module):
    """Weight (g), diameter (mm), die axis (h), alloy fractions ... -> issues"""

    def __init__(self, n_feat=11, dim=32, issues=5):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n_feat, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.slots = SlotAttention(issues, dim)
        self.dec = nn.Linear(dim, n_feat)

    def forward(self, coins):
        slots, attn = self.slots(self.enc(coins))
        recon = torch.einsum("bsn,bsf->bnf", attn, self.dec(slots))
        return recon, attn.argmax(1)


if __name__ == "__main__":
    m = HoardModel()
    r, who = m(torch.randn(2, 17, 11))
    print(r.shape, who[0])
