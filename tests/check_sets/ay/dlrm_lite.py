"""Deep Learning Recommendation Model (Naumov et al. 2019), small single-GPU version.

Dense features -> bottom MLP -> one vector; each sparse feature -> one pooled embedding.
All pairs of these vectors interact, the top MLP turns the result into a click logit.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(sizes, sigmoid_at=-1):
    out = nn.Sequential()
    for i, (n, m) in enumerate(zip(sizes[:-1], sizes[1:])):
        lin = nn.Linear(n, m)
        nn.init.normal_(lin.weight, 0.0, np.sqrt(2 / (m + n)))
        nn.init.normal_(lin.bias, 0.0, np.sqrt(1 / m))
        out.append(lin)
        out.append(nn.Sigmoid() if i == sigmoid_at else nn.ReLU())
    return out


class DotInteraction(nn.Module):
    """Pairwise inner products of the feature vectors (factorisation-machine style).

    dense  [B, d]; sparse: list of [B, d]. Output: the dense vector followed by the
    products <z_i, z_j> of all pairs i > j (with `itself` also i == j), [B, d + pairs].
    """

    def __init__(self, n_vectors, itself=False):
        super().__init__()
        li, lj = torch.tril_indices(n_vectors, n_vectors, 0 if itself else -1)
        self.register_buffer("li", li, persistent=False)
        self.register_buffer("lj", lj, persistent=False)

    @property
    def n_pairs(self):
        return len(self.li)

    def forward(self, dense, sparse):
        z = torch.stack([dense] + list(sparse), dim=1)
        products = torch.bmm(z, z.transpose(1, 2))
        return torch.cat([dense, products[:, self.li, self.lj]], dim=1)


class DLRM(nn.Module):
    def __init__(self, rows, dim=16, n_dense=13, bottom=(64, 32), top=(64, 32)):
        super().__init__()
        self.tables = nn.ModuleList()
        for n in rows:
            t = nn.EmbeddingBag(n, dim, mode="sum", sparse=False)
            nn.init.uniform_(t.weight, -np.sqrt(1 / n), np.sqrt(1 / n))
            self.tables.append(t)
        self.bottom = mlp([n_dense, *bottom, dim])
        self.interact = DotInteraction(len(rows) + 1)
        self.top = mlp([dim + self.interact.n_pairs, *top, 1], sigmoid_at=len(top))

    def forward(self, dense, offsets, indices):
        """offsets, indices: one pair per sparse feature, as in nn.EmbeddingBag."""
        x = self.bottom(dense)
        y = [t(i, o) for t, i, o in zip(self.tables, indices, offsets)]
        return self.top(self.interact(x, y)).squeeze(1)


def random_batch(rows, batch, n_dense=13, max_hot=4, rng=None):
    rng = rng or np.random.default_rng()
    dense = torch.tensor(rng.random((batch, n_dense)), dtype=torch.float32)
    offsets, indices = [], []
    for n in rows:
        hot = rng.integers(1, max_hot + 1, batch)
        offsets.append(torch.tensor(np.concatenate([[0], hot.cumsum()[:-1]])))
        indices.append(torch.tensor(rng.integers(0, n, hot.sum())))
    clicks = torch.tensor(rng.integers(0, 2, batch), dtype=torch.float32)
    return dense, offsets, indices, clicks


def auc(scores, labels):
    order = np.argsort(scores)
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    pos = labels == 1
    n1, n0 = pos.sum(), (~pos).sum()
    if n1 == 0 or n0 == 0:
        return float("nan")
    return (ranks[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


def train(rows, steps=100, batch=128, lr=0.05, seed=0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = DLRM(rows)
    opt = torch.optim.Adagrad(model.parameters(), lr=lr)
    for step in range(steps):
        dense, off, idx, y = random_batch(rows, batch, rng=rng)
        p = model(dense, off, idx)
        loss = F.binary_cross_entropy(p, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, loss.item(), auc(p.detach().numpy(), y.numpy()))
    return model


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", default="1000-500-200-40")
    ap.add_argument("--steps", type=int, default=100)
    a = ap.parse_args()
    train([int(n) for n in a.rows.split("-")], a.steps)
