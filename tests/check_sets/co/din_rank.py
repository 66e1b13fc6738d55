# Deep Interest Network for CTR prediction (Zhou et al., KDD 2018)
import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, n, eps=1e-8):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(x))
        return (p * x + (1 - p) * self.alpha * x).view(shape)


class LocalActivationUnit(nn.Module):
    """Weighted sum of the clicked items, weights from a small MLP on
    (candidate, clicked, candidate - clicked, candidate * clicked).

    As in sec. 4.3 of the paper the weights are NOT normalised: no softmax, so that the
    intensity of the user's interest is preserved.
    """

    def __init__(self, dim=12, hidden=(16, 8)):
        super().__init__()
        layers, d = [], 4 * dim
        for h in hidden:
            layers += [nn.Linear(d, h), Dice(h)]
            d = h
        layers.append(nn.Linear(d, 1))
        self.mlp = nn.Sequential(*layers)

    def forward(self, candidate, history, history_mask):
        """
        candidate: (B, dim)
        history: (B, T, dim)
        history_mask: (B, T), 1 for a real click and 0 for padding
        -> (B, dim)
        """
        cand = candidate.unsqueeze(1).expand_as(history)
        z = torch.cat([cand, history, cand - history, cand * history], dim=-1)
        w = self.mlp(z).squeeze(-1)
        w = w * history_mask.to(w.dtype)
        return torch.einsum("bt,btd->bd", w, history)


class DIN(nn.Module):
    def __init__(self, n_items=100, n_cates=10, dim=6):
        super().__init__()
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.cate = nn.Embedding(n_cates, dim, padding_idx=0)
        self.att = LocalActivationUnit(2 * dim)
        self.fc = nn.Sequential(nn.Linear(6 * dim, 32), Dice(32), nn.Linear(32, 1))

    def emb(self, i, c):
        return torch.cat([self.item(i), self.cate(c)], dim=-1)

    def forward(self, item, cate, hist_item, hist_cate):
        cand = self.emb(item, cate)
        hist = self.emb(hist_item, hist_cate)
        user = self.att(cand, hist, hist_item != 0)
        return self.fc(torch.cat([user, cand, user * cand], dim=-1)).squeeze(-1)
