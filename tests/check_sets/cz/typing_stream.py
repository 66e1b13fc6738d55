import torch
import torch.nn as nn
import torch.nn.functional as F


def phases(first, count, d, base=10000.0):
    p = torch.arange(first, first + count).float()
    inv = 1.0 / base ** (torch.arange(0, d, 2).float() / d)
    ang = torch.outer(p, inv)
    return torch.polar(torch.ones_like(ang), ang)


def turn(x, ph):
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * ph).flatten(-2).type_as(x)


class TypingStream(nn.Module):
    """Autocomplete layer fed by chunks of keystrokes; feeding a text in chunks gives the
    same result as feeding it whole.

    step(x, state): x (B, T, D), state None or the tuple returned before.
    """

    def __init__(self, D=24, heads=3):
        super().__init__()
        self.h, self.d = heads, D // heads
        self.inp = nn.Linear(D, 3 * D, bias=False)
        self.out = nn.Linear(D, D, bias=False)

    def forward(self, x, state=None):
        return self.step(x, state)[0]

    def step(self, x, state=None):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.h, self.d).transpose(1, 2) for t in self.inp(x).chunk(3, -1))
        done = 0 if state is None else state[0].shape[2]
        ph = phases(0, T, self.d)
        q, k = turn(q, ph), turn(k, ph)
        if state is not None:
            k, v = torch.cat([state[0], k], 2), torch.cat([state[1], v], 2)
        seen = torch.ones(T, done + T, dtype=torch.bool).tril(done)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(y.transpose(1, 2).flatten(2)), (k, v)
