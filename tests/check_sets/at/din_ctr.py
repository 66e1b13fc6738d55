"""Deep Interest Network for CTR prediction (Zhou et al., KDD 2018)."""
import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, affine=False)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(x))
        return (p * x + (1 - p) * self.alpha * x).reshape(shape)


class LocalActivationUnit(nn.Module):
    """Interest of the user in the candidate.

    As in section 4.3 of the paper the outputs of the unit are used as weights
    directly -- "the constraint of sum w_i = 1 is relaxed", no softmax -- so that
    the intensity of interest is kept.  Padded behaviours get weight 0.
    """

    def __init__(self, dim, hidden=(64, 16)):
        super().__init__()
        mlp, d = [], 4 * dim
        for h in hidden:
            mlp += [nn.Linear(d, h), nn.PReLU()]
            d = h
        mlp.append(nn.Linear(d, 1))
        self.mlp = nn.Sequential(*mlp)

    def forward(self, query, facts, mask):
        """query (B, D); facts (B, T, D); mask (B, T) with 1 for real behaviours"""
        q = query.unsqueeze(1).expand_as(facts)
        w = self.mlp(torch.cat([q, facts, q - facts, q * facts], dim=-1)).squeeze(-1)
        w = torch.where(mask > 0, w, torch.zeros_like(w))
        return torch.bmm(w.unsqueeze(1), facts).squeeze(1), w


class DIN(nn.Module):
    def __init__(self, n_items, n_cates, dim=18, top=(80, 40)):
        super().__init__()
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.cate = nn.Embedding(n_cates, dim, padding_idx=0)
        self.unit = LocalActivationUnit(2 * dim)
        layers, d = [], 6 * dim
        for h in top:
            layers += [nn.Linear(d, h), Dice(h)]
            d = h
        layers.append(nn.Linear(d, 1))
        self.top = nn.Sequential(*layers)

    def embed(self, items, cates):
        return torch.cat([self.item(items), self.cate(cates)], dim=-1)

    def forward(self, item, cate, hist_items, hist_cates):
        mask = (hist_items != 0).float()
        q = self.embed(item, cate)
        h = self.embed(hist_items, hist_cates)
        interest, _ = self.unit(q, h, mask)
        return self.top(torch.cat([q, interest, q * interest], dim=-1)).squeeze(-1)


def gauc(scores, labels, users):
    """AUC per user, weighted by impressions."""
    total = weight = 0.0
    for u in users.unique():
        s, y = scores[users == u], labels[users == u]
        pos, neg = s[y == 1], s[y == 0]
        if len(pos) == 0 or len(neg) == 0:
            continue
        auc = (pos[:, None] > neg[None]).float().mean() + 0.5 * (pos[:, None] == neg[None]).float().mean()
        total += float(auc) * len(s)
        weight += len(s)
    return total / max(weight, 1.0)
