"""Set2Set readout (Vinyals et al. 2016) for molecules of different sizes.

    x     (N, D)   all the atoms of the batch, one below the other
    batch (N,)     number of the molecule of each atom, 0..B-1, not decreasing,
                   every molecule has an atom
    returns (B, 2D)

T times:  q = LSTM(q*);  a_i = softmax over the atoms of the molecule (x_i . q);
          r = sum_i a_i x_i;  q* = [q, r]
The dot product is not scaled, as in the paper.
"""
import torch
from torch import nn


class Set2Set(nn.Module):
    def __init__(self, D: int, T: int = 3):
        super().__init__()
        self.D, self.T = D, T
        self.lstm = nn.LSTMCell(2 * D, D)

    def forward(self, x: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        sizes = torch.bincount(batch)
        B = sizes.numel()
        # dense rectangle: molecule by slot
        start = torch.cumsum(sizes, 0) - sizes
        slot = torch.arange(x.size(0), device=x.device) - start[batch]
        rect = x.new_zeros(B, int(sizes.max()), self.D)
        rect[batch, slot] = x
        empty = torch.ones(rect.shape[:2], dtype=torch.bool, device=x.device)
        empty[batch, slot] = False

        h = c = x.new_zeros(B, self.D)
        q_star = x.new_zeros(B, 2 * self.D)
        for _ in range(self.T):
            h, c = self.lstm(q_star, (h, c))
            e = torch.bmm(rect, h.unsqueeze(2)).squeeze(2)
            e = e.masked_fill(empty, torch.finfo(e.dtype).min)
            a = torch.softmax(e, dim=1)
            r = torch.bmm(a.unsqueeze(1), rect).squeeze(1)
            q_star = torch.cat([h, r], dim=1)
        return q_star
