"""Policy/value trunk for a small chess engine.

The board is 64 tokens.  Every head owns a learned *sink*: one extra logit that
takes part in the softmax normalisation but carries no value, so that a head can
say "nothing interesting here".  Keys and values are shared by groups of query
heads (head h reads group h // (n_heads / n_groups)).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

N_SQ = 64


def rank_file_offsets():
    """[64, 64] index into a 15 x 15 table of (rank, file) offsets."""
    r = torch.arange(N_SQ) // 8
    f = torch.arange(N_SQ) % 8
    dr = r[:, None] - r[None, :] + 7
    df = f[:, None] - f[None, :] + 7
    return dr * 15 + df


class SquareAttention(nn.Module):
    def __init__(self, width=96, n_heads=6, n_groups=2):
        super().__init__()
        assert n_heads % n_groups == 0
        self.h, self.g, self.d = n_heads, n_groups, width // n_heads
        self.q = nn.Linear(width, n_heads * self.d, bias=False)
        self.kv = nn.Linear(width, 2 * n_groups * self.d, bias=False)
        self.proj = nn.Linear(n_heads * self.d, width)
        self.sink = nn.Parameter(torch.zeros(n_heads))
        self.geo = nn.Parameter(torch.zeros(n_heads, 15 * 15))
        self.register_buffer("geo_idx", rank_file_offsets(), persistent=False)

    def forward(self, x):
        b, n, _ = x.shape
        r = self.h // self.g
        # five axes: batch, group, member of the group, square, channel
        q = self.q(x).view(b, n, self.g, r, self.d).permute(0, 2, 3, 1, 4)
        k, v = self.kv(x).view(b, n, 2, self.g, self.d).permute(2, 0, 3, 1, 4)
        logits = torch.einsum("bgrid,bgjd->bgrij", q, k) / math.sqrt(self.d)
        geo = self.geo[:, self.geo_idx].view(self.g, r, n, n)
        logits = (logits + geo).float()
        sink = self.sink.float().view(1, self.g, r, 1, 1).expand(b, -1, -1, n, 1)
        p = torch.cat([logits, sink], dim=-1).softmax(dim=-1)[..., :-1]
        y = torch.einsum("bgrij,bgjd->bigrd", p.to(v.dtype), v)
        return self.proj(y.reshape(b, n, self.h * self.d))


class Block(nn.Module):
    def __init__(self, width, n_heads, n_groups):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.att = SquareAttention(width, n_heads, n_groups)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.Mish(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class ChessNet(nn.Module):
    def __init__(self, planes=112, width=96, depth=4):
        super().__init__()
        self.stem = nn.Linear(planes, width)
        self.blocks = nn.Sequential(*[Block(width, 6, 2) for _ in range(depth)])
        self.src, self.dst = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, 3)

    def forward(self, board):
        x = self.blocks(F.mish(self.stem(board)))
        policy = self.src(x) @ self.dst(x).transpose(1, 2)
        return policy.flatten(1), self.value(x.mean(1)).log_softmax(-1)


if __name__ == "__main__":
    pol, val = ChessNet()(torch.rand(2, 64, 112))
    print(pol.shape, val.exp().sum(-1))
