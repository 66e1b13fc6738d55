"""Deep Interest Network (Zhou et al., KDD 2018), attention on the user's history.

As in section 4.3 the weights are NOT passed through a softmax: their sum stands for
the strength of the interest.
"""
import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.eps = eps
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True, unbiased=False)
        p = torch.sigmoid((x - mean) / torch.sqrt(var + self.eps))
        return p * x + (1 - p) * self.alpha * x


class LocalActivationUnit(nn.Module):
    """
    query   (B, E)     embedding of the candidate ad
    history (B, T, E)  embeddings of what the user clicked, padded at the end
    hist_len (B,)      number of real clicks, may be 0
    -> (B, E) user interest with respect to the candidate
    """

    def __init__(self, emb_dim: int = 16, hidden=(36, 18)):
        super().__init__()
        layers, d = [], 4 * emb_dim
        for h in hidden:
            layers += [nn.Linear(d, h), Dice(h)]
            d = h
        layers.append(nn.Linear(d, 1))
        self.mlp = nn.Sequential(*layers)

    def forward(self, query, history, hist_len):
        q = query.unsqueeze(1).expand_as(history)
        w = self.mlp(torch.cat([q, history, q - history, q * history], dim=-1)).squeeze(-1)
        real = torch.arange(history.size(1), device=history.device)[None] < hist_len[:, None]
        w = w * real.to(w.dtype)
        return torch.einsum("bt,bte->be", w, history)
