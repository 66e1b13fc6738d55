"""Triangle self-attention on the pair representation (AlphaFold 2, Alg. 13 and 14)."""
import torch
from torch import nn


def permute_final_dims(t, inds):
    zero = -len(inds)
    first = list(range(t.dim() - len(inds)))
    return t.permute(first + [len(first) + i for i in inds])


class Gated(nn.Module):
    """Gated multi-head attention on the last-but-one axis; `biases` are added to the logits."""

    def __init__(self, c_in, c_hidden, heads):
        super().__init__()
        self.c_hidden, self.heads = c_hidden, heads
        self.linear_q = nn.Linear(c_in, c_hidden * heads, bias=False)
        self.linear_k = nn.Linear(c_in, c_hidden * heads, bias=False)
        self.linear_v = nn.Linear(c_in, c_hidden * heads, bias=False)
        self.linear_g = nn.Linear(c_in, c_hidden * heads)
        self.linear_o = nn.Linear(c_hidden * heads, c_in)

    def forward(self, x, biases):
        q, k, v = (f(x) for f in (self.linear_q, self.linear_k, self.linear_v))
        q = q / self.c_hidden ** 0.5
        q, k, v = (t.view(t.shape[:-1] + (self.heads, -1)).transpose(-2, -3) for t in (q, k, v))
        a = torch.matmul(q, permute_final_dims(k, (1, 0)))
        for b in biases:
            a = a + b
        a = torch.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(-2, -3)
        g = torch.sigmoid(self.linear_g(x))
        o = o.reshape(o.shape[:-2] + (-1,)) * g
        return self.linear_o(o)


class TriangleAttention(nn.Module):
    """z: (*, N, N, C_z) pair embedding; mask: (*, N, N), 1 where the pair exists.

    starting=True: attention around the starting node, i.e. z[i, j] looks at z[i, k] with a
    bias from z[j, k].  starting=False: around the ending node, on the transposed pair.
    """

    def __init__(self, c_z=16, c_hidden=8, heads=4, starting=True, inf=1e9):
        super().__init__()
        self.starting = starting
        self.inf = inf
        self.layer_norm = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, heads, bias=False)
        self.mha = Gated(c_z, c_hidden, heads)

    def forward(self, z, mask=None):
        if mask is None:
            mask = z.new_ones(z.shape[:-1])
        if not self.starting:
            z = z.transpose(-2, -3)
            mask = mask.transpose(-1, -2)

        z = self.layer_norm(z)
        mask_bias = (self.inf * (mask - 1))[..., :, None, None, :]
        triangle_bias = permute_final_dims(self.linear_z(z), (2, 0, 1)).unsqueeze(-4)
        z = self.mha(z, [mask_bias, triangle_bias])

        if not self.starting:
            z = z.transpose(-2, -3)
        return z


class PairStack(nn.Module):
    def __init__(self, c_z=16, heads=4):
        super().__init__()
        self.start = TriangleAttention(c_z, 8, heads, True)
        self.end = TriangleAttention(c_z, 8, heads, False)
        self.transition = nn.Sequential(
            nn.LayerNorm(c_z), nn.Linear(c_z, 4 * c_z), nn.ReLU(), nn.Linear(4 * c_z, c_z)
        )

    def forward(self, z, mask=None):
        z = z + self.start(z, mask)
        z = z + self.end(z, mask)
        return z + self.transition(z)
