"""Small chat model, one layer of it. Rotary positions, keys are stored rotated."""
import torch
import torch.nn as nn


def spin(x, pos):
    """Rotates the pairs (x0, x1), (x2, x3), ... of x (B, T, H, d) by pos (T,)."""
    d = x.shape[-1]
    freq = 10000.0 ** (-torch.arange(0, d, 2, device=x.device) / d)
    a = torch.outer(pos.float(), freq)[None, :, None, :]
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return torch.stack([x1 * a.cos() - x2 * a.sin(), x1 * a.sin() + x2 * a.cos()], -1).flatten(-2)


class ChatLayer(nn.Module):
    def __init__(self, dim=48, heads=3):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, memory=None):
        """x (B, T, dim): the new tokens only. memory: what the last call returned, or None.

        returns (B, T, dim) and the new memory
        """
        B, T, D = x.shape
        n = self.norm(x)
        q = self.q(n).view(B, T, self.heads, -1)
        k = self.k(n).view(B, T, self.heads, -1)
        v = self.v(n).view(B, T, self.heads, -1)
        pos = torch.arange(T, device=x.device)
        q, k = spin(q, pos), spin(k, pos)
        if memory is not None:
            k = torch.cat([memory[0], k], dim=1)
            v = torch.cat([memory[1], v], dim=1)
        S = k.size(1)
        s = torch.einsum("bthd,bshd->bhts", q, k) / (D // self.heads) ** 0.5
        seen = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        s = s.masked_fill(~seen, float("-inf"))
        y = torch.einsum("bhts,bshd->bthd", s.softmax(-1), v).reshape(B, T, D)
        return x + self.o(y), (k, v)


@torch.no_grad()
def reply(layer, emb, head, prompt, n=10):
    y, mem = layer(emb(prompt))
    out = []
    for _ in range(n):
        t = head(y[:, -1]).argmax(-1, keepdim=True)
        out.append(t)
        y, mem = layer(emb(t), mem)
    return torch.cat(out, 1)
