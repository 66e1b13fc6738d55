"""Deep Interest Network (Zhou et al., KDD 2018) on an Amazon-style log.

Local activation unit: the behaviours of a user are weighted by their fit to the
candidate ad. As in section 4.3 of the paper the weights are NOT put through a softmax,
so that the strength of the interest (sum of the weights) survives the pooling.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Dice(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, eps=1e-8, affine=False)
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(x))
        return (p * x + (1 - p) * self.alpha * x).view(shape)


class ActivationUnit(nn.Module):
    """candidate [B, D], history [B, T, D], lengths [B] -> user interest [B, D].

    w_t = MLP([candidate; h_t; candidate - h_t; candidate * h_t]), weights of positions
    t >= length are zero, interest = sum_t w_t h_t.
    """

    def __init__(self, dim, hidden=(36, 16)):
        super().__init__()
        layers, n = [], 4 * dim
        for m in hidden:
            layers += [nn.Linear(n, m), nn.PReLU()]
            n = m
        self.mlp = nn.Sequential(*layers, nn.Linear(n, 1))

    def forward(self, candidate, history, lengths):
        T = history.size(1)
        c = candidate.unsqueeze(1).expand_as(history)
        w = self.mlp(torch.cat([c, history, c - history, c * history], dim=-1)).squeeze(-1)
        behind = torch.arange(T, device=history.device)[None] >= lengths[:, None]
        w = w.masked_fill(behind, 0.0)
        return torch.bmm(w.unsqueeze(1), history).squeeze(1)


class DIN(nn.Module):
    def __init__(self, n_items, n_cats, n_users, dim=32):
        super().__init__()
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.cat = nn.Embedding(n_cats, dim, padding_idx=0)
        self.user = nn.Embedding(n_users, dim)
        d = 2 * dim
        self.unit = ActivationUnit(d)
        self.norm = nn.BatchNorm1d(d)
        self.fc1 = nn.Linear(dim + 3 * d, 80)
        self.dice1 = Dice(80)
        self.fc2 = nn.Linear(80, 40)
        self.dice2 = Dice(40)
        self.out = nn.Linear(40, 1)

    def vectors(self, items, cats):
        return torch.cat([self.item(items), self.cat(cats)], dim=-1)

    def forward(self, user, item, cat, hist_items, hist_cats, lengths):
        ad = self.vectors(item, cat)
        hist = self.vectors(hist_items, hist_cats)
        interest = self.norm(self.unit(ad, hist, lengths))
        x = torch.cat([self.user(user), interest, ad, ad * interest], dim=-1)
        x = self.dice1(self.fc1(x))
        x = self.dice2(self.fc2(x))
        return self.out(x).squeeze(-1)

    def minibatch_l2(self, item_ids, counts):
        """Mini-batch aware regularisation: only the rows in use, weighted by frequency."""
        rows = self.item.weight[item_ids]
        return (rows.pow(2).sum(-1) / counts.clamp(min=1).to(rows.dtype)).sum()


def session_batches(log, size, max_len=50):
    """log: list of (user, item, cat, [(item, cat), ...], click)."""
    for at in range(0, len(log), size):
        rows = log[at:at + size]
        lens = [min(len(r[3]), max_len) for r in rows]
        T = max(max(lens), 1)
        hi = torch.zeros(len(rows), T, dtype=torch.long)
        hc = torch.zeros(len(rows), T, dtype=torch.long)
        for b, r in enumerate(rows):
            recent = r[3][-max_len:]
            for t, (i, c) in enumerate(recent):
                hi[b, t], hc[b, t] = i, c
        user, item, cat = (torch.tensor([r[j] for r in rows]) for j in range(3))
        click = torch.tensor([float(r[4]) for r in rows])
        yield (user, item, cat, hi, hc, torch.tensor(lens)), click


def group_auc(users, scores, clicks):
    """AUC per user, weighted with the number of impressions."""
    total, weight = 0.0, 0
    for u in users.unique():
        s, y = scores[users == u], clicks[users == u]
        pos, neg = s[y == 1], s[y == 0]
        if len(pos) and len(neg):
            d = pos[:, None] - neg[None]
            total += float((d > 0).float().mean() + 0.5 * (d == 0).float().mean()) * len(s)
            weight += len(s)
    return total / max(weight, 1)


def train(model, log, epochs=1, lr=1e-3):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for x, y in session_batches(log, 256):
            loss = F.binary_cross_entropy_with_logits(model(*x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
