import math
import torch
from torch import nn


def mask_of(n_past, width):
    return torch.arange(width, device=n_past.device).view(1, 1, -1) < n_past.view(-1, 1, 1)


class BidLandscape(nn.Module):
    """Open auctions (B, A, F) look up the advertiser's past auctions (B, P, F).

    n_past (B,) is the number of real past auctions, at least 1; the rest is padding.
    Returns price features (B, A, F).
    """

    def __init__(self, F=12):
        super().__init__()
        self.open_ = nn.Linear(F, F)
        self.past_ = nn.Linear(F, F)
        self.price = nn.Linear(F, F)
        self.root = math.sqrt(F)

    def forward(self, now, before, n_past):
        match = torch.bmm(self.open_(now), self.past_(before).transpose(1, 2)) / self.root
        match = match.masked_fill(~mask_of(n_past, before.size(1)), torch.finfo(match.dtype).min)
        share = torch.softmax(match, dim=1)
        return torch.bmm(share, self.price(before))
