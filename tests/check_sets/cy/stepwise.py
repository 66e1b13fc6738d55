import torch
from torch import nn


class Stepwise(nn.Module):
    """Decoder attention with a growing cache and partial rotary (interleaved pairs).

    forward(x, past) -> y, present.  past is None or (k, v), each (B, H, P, d),
    from the earlier calls. Feeding a sequence whole or piece by piece gives the
    same y.
    """

    def __init__(self, dim, heads, rot, max_pos=256):
        super().__init__()
        self.h, self.d, self.rot = heads, dim // heads, rot
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        f = 10000.0 ** (-torch.arange(0, rot, 2) / rot)
        a = torch.arange(max_pos)[:, None] * f
        self.register_buffer("turn", torch.polar(torch.ones_like(a), a), persistent=False)

    def rotate(self, x, turn):
        r, rest = x[..., :self.rot], x[..., self.rot:]
        z = torch.view_as_complex(r.unflatten(-1, (-1, 2)).contiguous()) * turn
        return torch.cat([torch.view_as_real(z).flatten(-2), rest], dim=-1)

    def forward(self, x, past=None):
        B, T, _ = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.h, self.d).permute(2, 0, 3, 1, 4)
        turn = self.turn[:T]
        q, k = self.rotate(q, turn), self.rotate(k, turn)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        N = k.shape[2]
        see = torch.ones(T, N, dtype=torch.bool, device=x.device).tril(N - T)
        s = (q @ k.mT) * self.d ** -0.5
        y = s.masked_fill(~see, float("-inf")).softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(B, T, -1)), (k, v)
