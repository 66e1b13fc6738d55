import torch
from torch import nn
from torch.nn import functional as F


class Attend(nn.Module):
    def __init__(self, q_dim, kv_dim, heads, dim_head):
        super().__init__()
        self.heads = heads
        inner = heads * dim_head
        self.q_norm, self.kv_norm = nn.LayerNorm(q_dim), nn.LayerNorm(kv_dim)
        self.to_q = nn.Linear(q_dim, inner, bias=False)
        self.to_k = nn.Linear(kv_dim, inner, bias=False)
        self.to_v = nn.Linear(kv_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, q_dim)

    def forward(self, x, context):
        x, context = self.q_norm(x), self.kv_norm(context)
        q, k, v = (f(z).unflatten(-1, (self.heads, -1)).transpose(-3, -2) for f, z in ((self.to_q, x), (self.to_k, context), (self.to_v, context)))
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(-3, -2).flatten(-2))


class PerceiverIO(nn.Module):
    """Encode x (B, N, dim) into latents, process, decode with queries (B, M, queries_dim) -> (B, M, queries_dim)."""

    def __init__(self, dim=10, queries_dim=6, num_latents=4, latent_dim=8, depth=2, heads=2, dim_head=4):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, latent_dim))
        self.encode = Attend(latent_dim, dim, heads, dim_head)
        self.process = nn.ModuleList(Attend(latent_dim, latent_dim, heads, dim_head) for _ in range(depth))
        self.decode = Attend(queries_dim, latent_dim, 1, dim_head)

    def forward(self, x, queries):
        z = self.latents.expand(x.shape[0], -1, -1)
        z = z + self.encode(z, x)
        for layer in self.process:
            z = z + layer(z, z)
        return self.decode(queries, z)
