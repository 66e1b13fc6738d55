"""Object discovery with slot attention (Locatello et al., 2020).

The slots compete for the inputs: the softmax runs over the SLOTS, and afterwards the
weights of each slot are divided by their sum over the inputs (weighted mean).
"""
import argparse
import math

import torch
from torch import nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots, dim, iters=3, hidden=None, eps=1e-8):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = dim ** -0.5
        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim) / math.sqrt(dim))
        self.slots_logsigma = nn.Parameter(torch.full((1, 1, dim), -1.0))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.norm_in, self.norm_slots, self.norm_mlp = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        hidden = hidden or 2 * dim
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def init_slots(self, batch, noise=None):
        if noise is None:
            noise = torch.randn(batch, self.num_slots, self.slots_mu.shape[-1], device=self.slots_mu.device)
        return self.slots_mu + self.slots_logsigma.exp() * noise

    def forward(self, inputs, slots=None, present=None):
        """inputs [B, N, D]; slots [B, K, D] or None; present [B, N] bool, False for padding.

        Returns the slots and the maps [B, K, N] (share of each slot in each input).
        """
        b, n, d = inputs.shape
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        if slots is None:
            slots = self.init_slots(b)
        for _ in range(self.iters):
            before = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", k, q) * self.scale          # [B, N, K]
            share = dots.softmax(dim=-1)
            attn = share + self.eps
            if present is not None:
                attn = attn * present[..., None]
            attn = attn / attn.sum(dim=1, keepdim=True).clamp_min(self.eps)
            updates = torch.einsum("bij,bid->bjd", attn, v)
            slots = self.gru(updates.reshape(-1, d), before.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, share.transpose(1, 2)


class SoftPositions(nn.Module):
    def __init__(self, dim, h, w):
        super().__init__()
        y, x = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
        self.register_buffer("grid", torch.stack([x, y, 1 - x, 1 - y], -1)[None])
        self.proj = nn.Linear(4, dim)

    def forward(self, x):
        return x + self.proj(self.grid)


class SlotAutoEncoder(nn.Module):
    def __init__(self, size=32, num_slots=5, dim=32, grid=4):
        super().__init__()
        self.grid = grid
        self.enc = nn.Sequential(
            nn.Conv2d(3, dim, 5, padding=2), nn.ReLU(),
            nn.Conv2d(dim, dim, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(dim, dim, 5, padding=2), nn.ReLU())
        self.enc_pos = SoftPositions(dim, size // 2, size // 2)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.slot_attention = SlotAttention(num_slots, dim)
        self.dec_pos = SoftPositions(dim, grid, grid)
        layers = []
        for _ in range(int(math.log2(size // grid))):
            layers += [nn.ConvTranspose2d(dim, dim, 4, stride=2, padding=1), nn.ReLU()]
        self.dec = nn.Sequential(*layers, nn.Conv2d(dim, 4, 3, padding=1))

    def forward(self, img):
        b = img.shape[0]
        f = self.enc_pos(self.enc(img).permute(0, 2, 3, 1)).flatten(1, 2)
        slots, maps = self.slot_attention(self.mlp(f))
        k = slots.shape[1]
        x = slots.reshape(b * k, 1, 1, -1).expand(-1, self.grid, self.grid, -1)
        x = self.dec(self.dec_pos(x).permute(0, 3, 1, 2))
        rgb, alpha = x.view(b, k, 4, *img.shape[-2:]).split([3, 1], dim=2)
        alpha = alpha.softmax(dim=1)
        return (rgb * alpha).sum(1), alpha, maps


def random_shapes(n, size=32):
    img = torch.zeros(n, 3, size, size)
    for i in range(n):
        for _ in range(3):
            y, x = torch.randint(0, size - 8, (2,)).tolist()
            img[i, :, y:y + 8, x:x + 8] = torch.rand(3, 1, 1)
    return img


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=3)
    a = ap.parse_args()
    torch.manual_seed(0)
    net = SlotAutoEncoder()
    opt = torch.optim.Adam(net.parameters(), 4e-4)
    for _ in range(a.steps):
        img = random_shapes(4)
        loss = (net(img)[0] - img).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
