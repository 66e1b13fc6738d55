import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoupledCrossAttention(nn.Module):
    """IP-Adapter: text and image tokens get separate keys/values, same query.

    x (B, N, dim) UNet tokens, text (B, T, ctx), image (B, M, ctx). `weight` scales the image branch.
    """

    def __init__(self, dim: int, ctx: int, heads: int = 4, weight: float = 1.0):
        super().__init__()
        self.heads, self.weight = heads, weight
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k, self.to_v = nn.Linear(ctx, dim, bias=False), nn.Linear(ctx, dim, bias=False)
        self.to_k_ip, self.to_v_ip = nn.Linear(ctx, dim, bias=False), nn.Linear(ctx, dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def _h(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, text, image=None):
        q = self._h(self.to_q(x))
        y = F.scaled_dot_product_attention(q, self._h(self.to_k(text)), self._h(self.to_v(text)))
        if image is not None:
            y = y + self.weight * F.scaled_dot_product_attention(
                q, self._h(self.to_k_ip(image)), self._h(self.to_v_ip(image)))
        return x + self.to_out(y.transpose(1, 2).flatten(2))
