import torch
from torch import nn


class BidirectionalALiBi(nn.Module):
    """Symmetric ALiBi for an encoder that is read in chunks: -slope * |i - j| on absolute positions.

    The queries are the newest T positions, memory (B, P, dim) holds the P positions before them.
    """

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, num_heads + 1) / num_heads))

    def forward(self, x, memory):
        b, t, _ = x.shape
        context = torch.cat([memory, x], dim=1)
        s = context.shape[1]
        split = lambda z: z.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q = split(self.to_q(x))
        k, v = map(split, self.to_kv(context).chunk(2, dim=-1))
        rows = torch.arange(t)
        distance = (rows[:, None] - torch.arange(s)[None, :]).abs()
        bias = -self.slopes[:, None, None] * distance
        sim = q @ k.mT * q.shape[-1] ** -0.5 + bias.to(q.dtype)
        return self.to_out((sim.softmax(-1) @ v).transpose(1, 2).flatten(2))
