"""
Deep Interest Network, CTR prediction on Amazon Electronics.
Reference: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018
"""
import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(flat))
        return (p * flat + (1 - p) * self.alpha * flat).view(shape)


class DNN(nn.Module):
    def __init__(self, inputs_dim, hidden_units, activation="sigmoid"):
        super().__init__()
        dims = [inputs_dim] + list(hidden_units)
        mods = []
        for a, b in zip(dims[:-1], dims[1:]):
            mods += [nn.Linear(a, b), Dice(b) if activation == "dice" else nn.Sigmoid()]
        self.net = nn.Sequential(*mods)

    def forward(self, x):
        return self.net(x)


class LocalActivationUnit(nn.Module):
    """f(e_u, v_a): an MLP on [query, fact, query - fact, query * fact] gives one score per fact"""

    def __init__(self, emb_dim, hidden_units=(64, 16)):
        super().__init__()
        self.dnn = DNN(4 * emb_dim, hidden_units)
        self.dense = nn.Linear(hidden_units[-1], 1)

    def forward(self, query, user_behavior):
        T = user_behavior.size(1)
        queries = query.expand(-1, T, -1)
        x = torch.cat([queries, user_behavior, queries - user_behavior, queries * user_behavior], dim=-1)
        return self.dense(self.dnn(x))                         # [B, T, 1]


class InterestPooling(nn.Module):
    """Pools the behaviors of a user with respect to the candidate ad.

    As in section 4.3 of the paper the weights are NOT normalised: no softmax, the scale of
    the result keeps the intensity of the interest.  ``weight_normalization=True`` gives the
    softmax variant.

    query [B, 1, E], keys [B, T, E], keys_length [B] (number of real behaviors) -> [B, 1, E]
    """

    def __init__(self, emb_dim, weight_normalization=False):
        super().__init__()
        self.weight_normalization = weight_normalization
        self.local_att = LocalActivationUnit(emb_dim)

    def forward(self, query, keys, keys_length):
        T = keys.size(1)
        score = self.local_att(query, keys).transpose(1, 2)    # [B, 1, T]
        real = torch.arange(T, device=keys.device)[None, None, :] < keys_length[:, None, None]
        if self.weight_normalization:
            score = torch.where(real, score, torch.full_like(score, -2 ** 32 + 1))
            score = torch.softmax(score, dim=-1)
        else:
            score = torch.where(real, score, torch.zeros_like(score))
        return torch.matmul(score, keys)


class DIN(nn.Module):
    def __init__(self, n_items, n_cates, emb=16):
        super().__init__()
        self.item, self.cate = nn.Embedding(n_items, emb, padding_idx=0), nn.Embedding(n_cates, emb, padding_idx=0)
        self.pool = InterestPooling(2 * emb)
        self.top = nn.Sequential(DNN(6 * emb, (80, 40), "dice"), nn.Linear(40, 1))

    def _emb(self, items, cates):
        return torch.cat([self.item(items), self.cate(cates)], dim=-1)

    def forward(self, cand, cand_cate, hist, hist_cate, hist_len):
        q = self._emb(cand, cand_cate)
        h = self._emb(hist, hist_cate)
        u = self.pool(q.unsqueeze(1), h, hist_len).squeeze(1)
        return self.top(torch.cat([u, q, u * q], dim=-1)).squeeze(-1)
