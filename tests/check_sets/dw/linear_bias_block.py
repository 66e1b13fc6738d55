"""Pre-norm language-model block with ALiBi (Press et al., 2022) in place of position embeddings.

x        (B, T, C)
forward  returns (y, prob): y (B, T, C); prob (B, n_head, T, T) is the attention
         distribution itself -- every row sums to 1, also while training -- which our
         entropy regulariser reads.  Dropout (rate p, training only) is applied to the
         probabilities that multiply V.

Head slopes as in the paper: for a power of two n they are 2^(-8/n), 2^(-16/n), ..., 2^(-8);
for any other n, take the slopes of the nearest lower power of two m and fill up with every
second slope (1st, 3rd, ...) of 2m heads.  The bias is -slope * (i - j) for j <= i and the
block is causal.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def head_slopes(n):
    ratio = 2.0 ** (-8.0 / n)
    return torch.tensor([ratio ** (i + 1) for i in range(n)])


class AlibiBlock(nn.Module):
    def __init__(self, C, n_head, p=0.1):
        super().__init__()
        assert C % n_head == 0
        self.n_head, self.p = n_head, p
        self.ln_a, self.ln_m = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv = nn.Linear(C, 3 * C)
        self.out = nn.Linear(C, C)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))
        self.register_buffer("slopes", head_slopes(n_head))

    def forward(self, x):
        B, T, C = x.shape
        d = C // self.n_head
        q, k, v = self.qkv(self.ln_a(x)).split(C, dim=-1)
        q, k, v = (u.view(B, T, self.n_head, d).transpose(1, 2) for u in (q, k, v))

        i = torch.arange(T, device=x.device)
        back = (i[:, None] - i[None, :]).to(x.dtype)
        att = q @ k.transpose(-1, -2) / math.sqrt(d)
        att = att - self.slopes[:, None, None] * back
        att = att.masked_fill(back < 0, float("-inf"))
        prob = att.softmax(dim=-1)
        prob = F.dropout(prob, self.p, training=self.training)
        y = (prob @ v).transpose(1, 2).reshape(B, T, C)

        x = x + self.out(y)
        return x + self.mlp(self.ln_m(x)), prob
