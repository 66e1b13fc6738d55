import torch
from torch import nn


class ChunkLayer(nn.Module):
    """Self-attention for streaming speech.

    Frames come in chunks. All frames of a chunk see each other (the latency is one
    chunk anyway) and the last `left` frames before the chunk. Positions enter as a
    learned bias on the clipped distance.

    forward(chunk, state): chunk (B, C, dim), state None or (k, v) of the last call.
    """

    def __init__(self, dim, heads, left=16, clip=24):
        super().__init__()
        self.heads, self.left, self.clip = heads, left, clip
        self.kv = nn.Linear(dim, 2 * dim)
        self.q = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.dist = nn.Embedding(2 * clip + 1, heads)
        self.norm = nn.LayerNorm(dim)

    def forward(self, chunk, state=None):
        B, C, D = chunk.shape
        x = self.norm(chunk)
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.kv(x).chunk(2, -1))
        if state is not None:
            k = torch.cat((state[0], k), 2)
            v = torch.cat((state[1], v), 2)
        n = k.size(2)
        qi = torch.arange(n - C, n, device=chunk.device)
        ki = torch.arange(n, device=chunk.device)
        rel = (qi[:, None] - ki[None, :]).clamp(-self.clip, self.clip) + self.clip
        s = q @ k.transpose(2, 3) * q.size(-1) ** -0.5 + self.dist(rel).permute(2, 0, 1)
        y = (s.softmax(dim=3) @ v).transpose(1, 2).flatten(2)
        keep = max(0, n - self.left)
        return chunk + self.o(y), (k[:, :, keep:], v[:, :, keep:])
