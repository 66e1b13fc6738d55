import torch
from torch import nn


class WindowedDecoder(nn.Module):
    """Decodes one token at a time and keeps the last `window` keys and values.  forward(x): x (B, T, dim), one token after the other."""

    def __init__(self, dim, window=3):
        super().__init__()
        self.window = window
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x):
        keys = x.new_zeros(x.shape[0], 0, x.shape[2])
        values = keys
        out = []
        for t in range(x.shape[1]):
            token = x[:, t : t + 1]
            keys = torch.cat([keys, self.k(token)], dim=1)[:, -self.window :]
            values = torch.cat([values, self.v(token)], dim=1)[:, : self.window]
            w = torch.softmax(self.q(token) @ keys.transpose(1, 2) / x.shape[2] ** 0.5, dim=-1)
            out.append(w @ values)
        return torch.cat(out, dim=1)
