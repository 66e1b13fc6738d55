import torch
from torch import nn, einsum


class MultiQueryAttention(nn.Module):
    def __init__(self, dim, heads=4, dim_head=8):
        super().__init__()
        self.heads, self.scale = heads, dim_head ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, dim_head * 2, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim, bias=False)

    def forward(self, x, causal: bool = True):
        x = self.norm(x)
        q = self.to_q(x).unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3) * self.scale
        k, v = self.to_kv(x).chunk(2, dim=-1)
        sim = einsum("b h i d, b j d -> b h i j", q, k)
        if causal:
            i, j = sim.shape[-2:]
            blocked = torch.ones((i, j), dtype=torch.bool, device=x.device).triu(j - i + 1)
            sim = sim.masked_fill(blocked, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b j d -> b h i d", attn, v)
        return self.to_out(out.permute(0, 2, 1, 3).flatten(2))
