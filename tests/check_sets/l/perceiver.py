import torch
from torch import nn, Tensor


class PerceiverCrossAttention(nn.Module):
    """A learned latent array reads a long input: x (B, N, input_dim) -> (B, num_latents, latent_dim)."""

    def __init__(self, num_latents: int, latent_dim: int, input_dim: int, heads: int = 2, head_dim: int = 4):
        super().__init__()
        inner = heads * head_dim
        self.latents = nn.Parameter(torch.randn(num_latents, latent_dim))
        self.norm_latents = nn.LayerNorm(latent_dim)
        self.norm_input = nn.LayerNorm(input_dim)
        self.heads = heads
        self.to_q = nn.Linear(latent_dim, inner, bias=False)
        self.to_kv = nn.Linear(input_dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        lat = self.latents.expand(x.shape[0], -1, -1)
        q = self.to_q(self.norm_latents(lat))
        k, v = self.to_kv(self.norm_input(x)).chunk(2, dim=-1)
        q, k, v = [t.reshape(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2) for t in (q, k, v)]
        sim = torch.einsum("bhld,bhnd->bhln", q, k) / q.shape[-1] ** 0.5
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)
        out = torch.einsum("bhln,bhnd->bhld", attn, v).transpose(1, 2).flatten(2)
        return lat + self.to_out(out)
