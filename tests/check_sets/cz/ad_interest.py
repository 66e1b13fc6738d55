import torch
from torch import nn


def pairwise(ad, clicks):
    A, T = ad.size(1), clicks.size(1)
    left = ad.unsqueeze(2).expand(-1, -1, T, -1)
    right = clicks.unsqueeze(1).expand(-1, A, -1, -1)
    return torch.cat([left, right, left - right, left * right], dim=-1)


def up_to(counts, T):
    return torch.arange(T, device=counts.device)[None] < counts[:, None]


class InterestUnit(nn.Module):
    """Local activation unit, normalised variant.

    ad       (B, A, D)  candidate ads
    clicks   (B, T, D)  clicked ads, right padded
    n_clicks (B,)       number of real clicks, may be 0 (the user vector is then zero)
    """

    def __init__(self, width=16, hidden=24):
        super().__init__()
        self.judge = nn.Sequential(nn.Linear(4 * width, hidden), nn.PReLU(), nn.Linear(hidden, 1))

    def forward(self, ad, clicks, n_clicks):
        real = up_to(n_clicks, clicks.size(1))[:, None, :]
        logit = self.judge(pairwise(ad, clicks)).squeeze(-1)
        logit = logit.masked_fill(~real, torch.finfo(logit.dtype).min)
        share = logit.softmax(-1).masked_fill(~real, 0.0)
        return share @ clicks.masked_fill(~real.transpose(1, 2), 0.0)
