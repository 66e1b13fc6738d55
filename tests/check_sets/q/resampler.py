import torch
from torch import nn


class PerceiverAttention(nn.Module):
    def __init__(self, dim, dim_head=4, heads=2):
        super().__init__()
        self.heads, self.scale = heads, dim_head ** -0.5
        self.norm_media, self.norm_latents = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim_head * heads, bias=False)
        self.to_kv = nn.Linear(dim, dim_head * heads * 2, bias=False)
        self.to_out = nn.Linear(dim_head * heads, dim, bias=False)

    def forward(self, x, latents):
        x, latents = self.norm_media(x), self.norm_latents(latents)
        q = self.to_q(latents)
        k, v = self.to_kv(torch.cat((x, latents), dim=-2)).chunk(2, dim=-1)
        q, k, v = (z.unflatten(-1, (self.heads, -1)).movedim(-2, 1) for z in (q, k, v))
        sim = (q * self.scale) @ k.mT
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        return self.to_out((sim.softmax(dim=-1) @ v).movedim(1, -2).flatten(-2))


class PerceiverResampler(nn.Module):
    """Any number of media tokens (B, N, dim) -> num_latents tokens (B, num_latents, dim)"""

    def __init__(self, dim=10, depth=2, num_latents=3):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim))
        self.layers = nn.ModuleList(PerceiverAttention(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        latents = self.latents.expand(x.shape[0], -1, -1)
        for attn in self.layers:
            latents = latents + attn(x, latents)
        return self.norm(latents)
