"""Object-centric scene decomposition: the iterative slot module (Locatello et al., 2020).

Slots *compete* for inputs: the softmax runs over the slots, and only then every
slot takes the weighted mean over the inputs it won.
"""
import torch
from torch import nn

EPS = 1e-8


class Slots(nn.Module):
    def __init__(self, k: int, dim_in: int, dim_slot: int, iters: int = 3, hidden: int = 64):
        super().__init__()
        self.k, self.iters, self.dim = k, iters, dim_slot
        self.mu = nn.Parameter(torch.randn(1, 1, dim_slot) * dim_slot ** -0.5)
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim_slot))
        self.norm_in = nn.LayerNorm(dim_in)
        self.norm_slot = nn.LayerNorm(dim_slot)
        self.norm_mlp = nn.LayerNorm(dim_slot)
        self.key = nn.Linear(dim_in, dim_slot, bias=False)
        self.value = nn.Linear(dim_in, dim_slot, bias=False)
        self.query = nn.Linear(dim_slot, dim_slot, bias=False)
        self.gru = nn.GRUCell(dim_slot, dim_slot)
        self.mlp = nn.Sequential(nn.Linear(dim_slot, hidden), nn.ReLU(), nn.Linear(hidden, dim_slot))

    def init_slots(self, b, noise=None):
        if noise is None:
            noise = torch.randn(b, self.k, self.dim, device=self.mu.device)
        return self.mu + self.log_sigma.exp() * noise

    def step(self, slots, k, v):
        b = slots.shape[0]
        prev = slots
        q = self.query(self.norm_slot(slots))
        logits = torch.einsum("bnd,bkd->bnk", k, q) * self.dim ** -0.5
        owner = logits.softmax(dim=-1)                                # [B, N, K], sums to 1 over K
        share = owner + EPS
        share = share / share.sum(dim=1, keepdim=True)                # mean over the inputs
        updates = torch.einsum("bnk,bnd->bkd", share, v)
        slots = self.gru(updates.reshape(-1, self.dim), prev.reshape(-1, self.dim)).view(b, self.k, -1)
        return slots + self.mlp(self.norm_mlp(slots)), owner

    def forward(self, inputs, noise=None):
        """inputs [B, N, dim_in] -> slots [B, K, dim_slot], owner [B, N, K]"""
        x = self.norm_in(inputs)
        k, v = self.key(x), self.value(x)
        slots = self.init_slots(inputs.shape[0], noise)
        owner = None
        for _ in range(self.iters):
            slots, owner = self.step(slots, k, v)
        return slots, owner


class BroadcastDecoder(nn.Module):
    def __init__(self, dim, res=8):
        super().__init__()
        ax = torch.linspace(-1, 1, res)
        self.register_buffer("grid", torch.stack(torch.meshgrid(ax, ax, indexing="ij")))
        self.net = nn.Sequential(nn.Conv2d(dim + 2, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 4, 1))

    def forward(self, slots):
        b, k, d = slots.shape
        s = slots.reshape(b * k, d, 1, 1).expand(-1, -1, *self.grid.shape[1:])
        g = self.grid.expand(b * k, -1, -1, -1)
        rgb, alpha = self.net(torch.cat([s, g], 1)).split([3, 1], dim=1)
        rgb, alpha = rgb.unflatten(0, (b, k)), alpha.unflatten(0, (b, k)).softmax(dim=1)
        return (rgb * alpha).sum(1), alpha


if __name__ == "__main__":
    s, o = Slots(4, 32, 48)(torch.randn(2, 64, 32))
    img, a = BroadcastDecoder(48)(s)
    print(s.shape, o.sum(-1).mean().item(), img.shape)
