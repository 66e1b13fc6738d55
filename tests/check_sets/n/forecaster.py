import torch
import torch.nn as nn
import torch.nn.functional as F


class AutoregressiveForecaster(nn.Module):
    """Predicts every next value of a series from the values before it (teacher forcing): the prediction at step t depends
    on series[:, : t + 1] only.  series (B, T) -> (B, T)"""

    def __init__(self, width=16, heads=2, max_len=64):
        super().__init__()
        self.heads = heads
        self.lift = nn.Linear(1, width)
        self.pos = nn.Parameter(torch.randn(max_len, width) * 0.1)
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.readout = nn.Linear(width, 1)

    def forward(self, series):
        x = self.lift(series.unsqueeze(-1)) + self.pos[: series.shape[1]]
        b, t, c = x.shape
        cut = lambda z: z.view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        y = F.scaled_dot_product_attention(cut(self.q(x)), cut(k), cut(v))
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return self.readout(torch.relu(x)).squeeze(-1)
