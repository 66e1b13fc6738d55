"""Class attention over the particles of a jet."""
import torch
import torch.nn as nn


class JetClassAttention(nn.Module):
    """
    particles : (B, N, dim)
    present   : (B, N) bool, True for a particle, False for an empty slot
    returns     (B, dim), one vector per jet

    A class token asks; the token itself and all present particles answer.
    Empty slots have no influence on the result.
    """

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.norm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, particles, present=None):
        B, N, D = particles.shape
        d = D // self.heads
        cls = self.cls.expand(B, 1, D)
        u = self.norm(torch.cat([cls, particles], dim=1))
        q = self.q(u[:, :1]).reshape(B, 1, self.heads, d).transpose(1, 2)
        k, v = self.kv(u).reshape(B, N + 1, 2, self.heads, d).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) / d ** 0.5              # (B, heads, 1, N+1)
        if present is not None:
            first = torch.zeros(B, 1, dtype=torch.bool, device=present.device)
            slots = torch.cat([first, present], dim=1)
            att = att.masked_fill(slots[:, None, None, :], -torch.inf)
        att = att.softmax(dim=-1)
        pooled = (att @ v).transpose(1, 2).reshape(B, D)
        return self.cls[0, 0] + self.out(pooled)
