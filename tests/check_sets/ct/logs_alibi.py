"""Server log anomaly model: causal self-attention, recent lines weigh more."""
import torch
import torch.nn as nn


class LogAttention(nn.Module):
    """
    lines: (B, T, dim) embeddings of log lines, oldest first -> (B, T, dim).
    Causal. Heads use linear distance penalties with the ALiBi slopes 2^(-8h/n),
    h = 1..n, n a power of two: the farther back a line lies, the more is
    taken off its score.
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        assert heads & (heads - 1) == 0, "power of two please"
        self.heads = heads
        self.hd = dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.Linear(dim, dim)
        h = torch.arange(1, heads + 1).float()
        self.register_buffer("m", torch.exp2(-8.0 * h / heads), persistent=False)

    def penalty(self, T):
        t = torch.arange(T, device=self.m.device)
        steps = (t.unsqueeze(1) - t.unsqueeze(0))
        return self.m[:, None, None] * steps

    def forward(self, lines):
        B, T, D = lines.shape
        heads = lambda y: y.reshape(B, T, self.heads, self.hd).swapaxes(1, 2)
        q = heads(self.to_q(lines)) * self.hd ** -0.5
        k = heads(self.to_k(lines))
        v = heads(self.to_v(lines))
        sim = q @ k.swapaxes(-1, -2)
        sim = sim + self.penalty(T)
        later = torch.ones(T, T, device=lines.device).triu(1) > 0
        sim = sim.masked_fill(later, -1e9)
        attn = sim.softmax(dim=-1)
        return self.to_out((attn @ v).swapaxes(1, 2).reshape(B, T, D))
