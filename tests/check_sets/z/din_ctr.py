# Deep Interest Network, small rewrite.  paper: https://arxiv.org/abs/1706.06978
import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, affine=False, eps=eps)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(flat))
        return (p * flat + (1 - p) * self.alpha * flat).view(shape)


class InterestActivation(nn.Module):
    """Local activation unit.

    The activations are used as they come out of the MLP: Section 4.3 of the paper gives up
    the softmax on purpose, so that the sum keeps the intensity of the interest.

    candidate: (B, E); history: (B, T, E); lengths: (B,) number of clicked items.
    """

    def __init__(self, emb, hidden=(36, 16)):
        super().__init__()
        layers, d = [], 4 * emb
        for h in hidden:
            layers += [nn.Linear(d, h), Dice(h)]
            d = h
        layers.append(nn.Linear(d, 1))
        self.mlp = nn.Sequential(*layers)

    def forward(self, candidate, history, lengths):
        T = history.size(1)
        cand = candidate.unsqueeze(1).expand(-1, T, -1)
        pair = torch.cat([cand, history, cand - history, cand * history], dim=-1)
        w = self.mlp(pair).squeeze(-1)
        seen = torch.arange(T, device=history.device)[None, :] < lengths[:, None]
        w = w.masked_fill(~seen, 0.0)
        interest = torch.einsum("bt,bte->be", w, history)
        return interest, w


class DIN(nn.Module):
    def __init__(self, n_items, n_cates, emb=16):
        super().__init__()
        self.item = nn.Embedding(n_items, emb, padding_idx=0)
        self.cate = nn.Embedding(n_cates, emb, padding_idx=0)
        self.att = InterestActivation(2 * emb)
        self.fc = nn.Sequential(nn.Linear(4 * emb, 32), nn.PReLU(), nn.Linear(32, 1))

    def embed(self, item, cate):
        return torch.cat([self.item(item), self.cate(cate)], dim=-1)

    def forward(self, item, cate, hist_item, hist_cate, lengths):
        cand = self.embed(item, cate)
        interest, _ = self.att(cand, self.embed(hist_item, hist_cate), lengths)
        return self.fc(torch.cat([cand, interest], dim=-1)).squeeze(-1)
