"""Deep Interest Network ranker used in the feed service (pointwise CTR).

Paper: Zhou et al., KDD 2018. As in section 4.3 of the paper the activation
weights are NOT normalised with a softmax: their sum tells how strong the
interest for the candidate is.
"""
from typing import Dict, Sequence

import torch
from torch import nn


class Dice(nn.Module):
    def __init__(self, width, eps=1e-8):
        super().__init__()
        self.bn = nn.BatchNorm1d(width, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(flat))
        return (p * flat + (1 - p) * self.alpha * flat).view(shape)


class LocalActivationUnit(nn.Module):
    """Weighted sum of the history w.r.t. the candidate item.

    weight_t = MLP([h_t, c, h_t - c, h_t * c]), one scalar, used as it is.
    """

    def __init__(self, dim, hidden: Sequence[int] = (36,), activation=nn.PReLU):
        super().__init__()
        layers, width = [], 4 * dim
        for h in hidden:
            layers += [nn.Linear(width, h), activation()]
            width = h
        layers.append(nn.Linear(width, 1))
        self.mlp = nn.Sequential(*layers)

    def forward(self, candidate, history, history_mask):
        """
        candidate    [B, D]
        history      [B, T, D]
        history_mask [B, T], 1 for an event, 0 for padding
        """
        c = candidate.unsqueeze(1).expand_as(history)
        feats = torch.cat([history, c, history - c, history * c], dim=-1)
        w = self.mlp(feats).squeeze(-1)
        w = w * history_mask.to(w.dtype)
        return torch.bmm(w.unsqueeze(1), history).squeeze(1)


class FeatureEmbedding(nn.Module):
    def __init__(self, vocab_sizes: Dict[str, int], dim: int):
        super().__init__()
        self.tables = nn.ModuleDict({n: nn.Embedding(v, dim, padding_idx=0) for n, v in vocab_sizes.items()})

    def forward(self, name, ids):
        return self.tables[name](ids)


class DinRanker(nn.Module):
    def __init__(self, vocab_sizes, dim=16, tower=(64, 32)):
        super().__init__()
        self.emb = FeatureEmbedding(vocab_sizes, dim)
        self.user_fields = [f for f in vocab_sizes if f.startswith("user_")]
        self.interest = LocalActivationUnit(dim)
        width = dim * (len(self.user_fields) + 3)
        blocks = []
        for t in tower:
            blocks += [nn.Linear(width, t), Dice(t)]
            width = t
        self.tower = nn.Sequential(*blocks, nn.Linear(width, 1))

    def forward(self, batch):
        item = self.emb("item", batch["item"])
        hist = self.emb("item", batch["history"])
        mask = batch["history"] != 0
        interest = self.interest(item, hist, mask)
        user = [self.emb(f, batch[f]) for f in self.user_fields]
        x = torch.cat(user + [item, interest, item * interest], dim=-1)
        return self.tower(x).squeeze(-1)

    @torch.no_grad()
    def rank(self, batch):
        self.eval()
        score = torch.sigmoid(self(batch))
        return torch.argsort(score, descending=True), score
