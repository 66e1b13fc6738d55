import torch
import torch.nn as nn


def permute_final_dims(t, inds):
    zero = t.dim() - len(inds)
    return t.permute(*range(zero), *[zero + i for i in inds])


class Linear(nn.Linear):
    """nn.Linear with the initialisations of the AlphaFold supplement."""

    def __init__(self, i, o, bias=True, init="default"):
        super().__init__(i, o, bias)
        with torch.no_grad():
            if init == "gating":
                self.bias.fill_(1.0)
            elif init == "glorot":
                nn.init.xavier_uniform_(self.weight)


class TriangleAttention(nn.Module):
    """Algorithms 13 and 14 of AlphaFold 2.

    starting=True : edge ij reads the edges ik of the same row, bias from jk
    starting=False: edge ij reads the edges kj of the same column, bias from ki

    Args:
        z:    [*, N, N, c]  pair representation
        mask: [*, N, N]     1 for real pairs, 0 for padding
    Returns the update (the residual is added by the caller).
    """

    def __init__(self, c_in, c_hidden, no_heads, starting=True, inf=1e9):
        super().__init__()
        self.c_hidden, self.no_heads, self.starting, self.inf = c_hidden, no_heads, starting, inf
        self.layer_norm = nn.LayerNorm(c_in)
        self.linear_b = Linear(c_in, no_heads, bias=False)
        self.linear_q = Linear(c_in, c_hidden * no_heads, bias=False, init="glorot")
        self.linear_k = Linear(c_in, c_hidden * no_heads, bias=False, init="glorot")
        self.linear_v = Linear(c_in, c_hidden * no_heads, bias=False, init="glorot")
        self.linear_g = Linear(c_in, c_hidden * no_heads, init="gating")
        self.linear_o = Linear(c_hidden * no_heads, c_in)

    def _heads(self, t):
        t = t.view(t.shape[:-1] + (self.no_heads, self.c_hidden))
        return t.transpose(-2, -3)                              # [*, I, H, J, c]

    def forward(self, z, mask=None):
        if mask is None:
            mask = z.new_ones(z.shape[:-1])
        if not self.starting:
            z = z.transpose(-2, -3)
            mask = mask.transpose(-1, -2)
        z = self.layer_norm(z)
        mask_bias = (self.inf * (mask - 1))[..., :, None, None, :]       # [*, I, 1, 1, J]
        tri_bias = permute_final_dims(self.linear_b(z), (2, 0, 1)).unsqueeze(-4)

        q = self._heads(self.linear_q(z)) * self.c_hidden ** -0.5
        k = self._heads(self.linear_k(z))
        v = self._heads(self.linear_v(z))
        a = torch.matmul(q, k.transpose(-1, -2)) + mask_bias + tri_bias
        a = torch.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(-2, -3)                # [*, I, J, H, c]
        g = torch.sigmoid(self.linear_g(z))
        o = self.linear_o(o.reshape(g.shape) * g)
        return o if self.starting else o.transpose(-2, -3)


class PairStack(nn.Module):
    def __init__(self, c=16, blocks=1):
        super().__init__()
        self.start = nn.ModuleList(TriangleAttention(c, 8, 2) for _ in range(blocks))
        self.end = nn.ModuleList(TriangleAttention(c, 8, 2, starting=False) for _ in range(blocks))

    def forward(self, z, mask=None):
        for s, e in zip(self.start, self.end):
            z = z + s(z, mask)
            z = z + e(z, mask)
        return z
