import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, affine=False)
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        p = torch.sigmoid(self.bn(x.reshape(-1, x.shape[-1])).view_as(x))
        return p * x + (1 - p) * self.alpha * x


class InterestPool(nn.Module):
    """Local activation unit of DIN (Zhou et al. 2018).

    cand    (B, D)      embedding of the advert
    hist    (B, T, D)   embeddings of clicked goods, newest last
    n_hist  (B,)        how many of the T are filled (from the left); 0 is allowed
    Returns (B, D) = sum_t w_t hist_t. As in the paper the weights are NOT put through a softmax,
    so the intensity of an interest is kept; an empty history gives zeros. With softmax=True
    the normalised variant of the ablation is used (empty history: zeros too).
    """

    def __init__(self, D=10, hidden=16, softmax=False):
        super().__init__()
        self.softmax = softmax
        self.mlp = nn.Sequential(nn.Linear(4 * D, hidden), Dice(hidden), nn.Linear(hidden, 1))

    def forward(self, cand, hist, n_hist):
        B, T, D = hist.shape
        c = cand.unsqueeze(1).expand(-1, T, -1)
        w = self.mlp(torch.cat([c, hist, c - hist, c * hist], -1)).squeeze(-1)
        filled = torch.arange(T, device=hist.device) < n_hist.unsqueeze(1)
        if self.softmax:
            w = torch.softmax(w.masked_fill(~filled, torch.finfo(w.dtype).min), -1)
        w = w * filled
        return torch.einsum("bt,btd->bd", w, hist)
