"""Click model for an online stamp auction (DIN, Zhou et al., KDD 2018).

Interest in a lot is pooled from the bidder's earlier lots *relative to the
candidate*. As in section 4.3 of the paper the activation weights are NOT
normalised: somebody with forty Penny Blacks in the history is to get a bigger
vector than somebody with one, and a softmax would erase that.
"""
import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, n, eps=1e-8):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        p = torch.sigmoid(self.bn(flat)).view_as(x)
        return p * x + (1 - p) * self.alpha * x


class ActivationUnit(nn.Module):
    """
    candidate: [B, D]      history: [B, T, D]      length: [B] lots in the history
    returns the interest vector [B, D] = sum_t a(h_t, c) h_t, t < length
    """

    def __init__(self, dim, hidden=(36, 16)):
        super().__init__()
        layers, size = [], 4 * dim
        for h in hidden:
            layers += [nn.Linear(size, h), Dice(h)]
            size = h
        layers.append(nn.Linear(size, 1))
        self.mlp = nn.Sequential(*layers)

    def forward(self, candidate, history, length):
        T = history.shape[1]
        c = candidate.unsqueeze(1).expand_as(history)
        pair = torch.cat([history, c, history - c, history * c], dim=-1)
        a = self.mlp(pair).squeeze(-1)
        real = torch.arange(T, device=length.device)[None, :] < length[:, None]
        a = a * real
        return torch.einsum("bt,btd->bd", a, history)


class LotEmbedding(nn.Module):
    """country + issue year (bucketed) + condition grade"""

    def __init__(self, dim=24, countries=260, years=200, grades=7):
        super().__init__()
        self.country = nn.Embedding(countries, dim // 2)
        self.year = nn.Embedding(years, dim // 4)
        self.grade = nn.Embedding(grades, dim // 4)

    def forward(self, lot):
        return torch.cat([self.country(lot[..., 0]), self.year(lot[..., 1]), self.grade(lot[..., 2])], -1)


class BidModel(nn.Module):
    def __init__(self, dim=24, bidder_features=6):
        super().__init__()
        self.lots = LotEmbedding(dim)
        self.unit = ActivationUnit(dim)
        self.head = nn.Sequential(nn.Linear(2 * dim + bidder_features, 64), Dice(64), nn.Linear(64, 1))

    def forward(self, candidate, history, length, bidder):
        c, h = self.lots(candidate), self.lots(history)
        interest = self.unit(c, h, length)
        return self.head(torch.cat([interest, c, bidder], -1)).squeeze(-1)


def auc(score, label):
    order = score.argsort()
    rank = torch.empty_like(order, dtype=torch.float)
    rank[order] = torch.arange(1, len(score) + 1, dtype=torch.float)
    pos = label.sum()
    return (rank[label.bool()].sum() - pos * (pos + 1) / 2) / (pos * (len(label) - pos)).clamp_min(1)


if __name__ == "__main__":
    torch.manual_seed(3)
    m = BidModel().eval()
    lots = torch.stack([torch.randint(0, 260, (8, 12)), torch.randint(0, 200, (8, 12)), torch.randint(0, 7, (8, 12))], -1)
    print(m(lots[:, 0], lots[:, 1:], torch.randint(0, 12, (8,)), torch.randn(8, 6)))
