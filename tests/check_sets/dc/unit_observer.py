import torch
import torch.nn as nn
import torch.nn.functional as F


class UnitObserver(nn.Module):
    """RTS agent: units on the map exchange information, then are averaged to one vector.

    units (B, N, F); alive (B, N) bool. Returns per-unit (B, N, D) and global (B, D).
    Dead units come back as zeros, and no other unit looks at them.
    """

    def __init__(self, n_feat, D=64, heads=4, blocks=2, p=0.1):
        super().__init__()
        self.heads, self.p = heads, p
        self.inp = nn.Linear(n_feat, D)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(dict(ln=nn.LayerNorm(D), qkv=nn.Linear(D, 3 * D), o=nn.Linear(D, D),
                               ff=nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))))
            for _ in range(blocks)
        )

    def forward(self, units, alive):
        x = self.inp(units)
        B, N, D = x.shape
        eye = torch.eye(N, dtype=torch.bool, device=x.device)
        see = (alive[:, None, :] | eye).unsqueeze(1)      # a dead unit still has itself to look at
        for b in self.blocks:
            q, k, v = b["qkv"](b["ln"](x)).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=see, dropout_p=self.p if self.training else 0.0
            )
            x = x + b["o"](y.transpose(1, 2).reshape(B, N, D))
            x = x + b["ff"](x)
        x = x * alive.unsqueeze(-1)
        n = alive.sum(1, keepdim=True).clamp(min=1)
        return x, x.sum(1) / n
