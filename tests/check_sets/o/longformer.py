import torch
from torch import nn


class LocalGlobalAttention(nn.Module):
    """Longformer-like: a token sees its neighbours up to `radius` away and all global tokens; global tokens see everything.

    is_global: (B, N) bool
    """

    def __init__(self, dim, heads, radius=1):
        super().__init__()
        self.heads, self.radius = heads, radius
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, is_global):
        B, N, D = x.shape
        q, k, v = [f(x).reshape(B, N, self.heads, -1).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v)]
        pos = torch.arange(N, device=x.device)
        local = (pos[:, None] - pos[None, :]).abs() <= self.radius
        visible = local[None] | is_global[:, None, :] | is_global[:, :, None]
        s = torch.matmul(q, k.mT) / q.size(-1) ** 0.5
        s = torch.where(visible[:, None], s, s.new_tensor(float("-inf")))
        return torch.matmul(s.softmax(dim=-1), v).permute(0, 2, 1, 3).flatten(2)
