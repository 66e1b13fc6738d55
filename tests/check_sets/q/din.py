import torch
import torch.nn as nn


class LocalActivationUnit(nn.Module):
    def __init__(self, dim, hidden=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4 * dim, hidden), nn.Sigmoid(), nn.Linear(hidden, 1))

    def forward(self, item, history):
        item = item.unsqueeze(1).expand_as(history)
        return self.net(torch.cat([item, history, item - history, item * history], dim=-1)).squeeze(-1)


class DIN(nn.Module):
    """Deep Interest Network: the activation weights are NOT normalised with a softmax, so that their sum keeps the
    intensity of the interest (section 4.3 of the paper).

    item (B,) int64 candidate, hist (B, T) int64 clicked items with 0 as padding -> (B,) click logits
    """

    def __init__(self, n_items=40, dim=6):
        super().__init__()
        self.emb = nn.Embedding(n_items, dim, padding_idx=0)
        self.att = LocalActivationUnit(dim)
        self.top = nn.Linear(2 * dim, 1)

    def forward(self, item, hist):
        e, h = self.emb(item), self.emb(hist)
        w = self.att(e, h) * (hist != 0)
        interest = torch.einsum("bt,btd->bd", w, h)
        return self.top(torch.cat([e, interest], dim=1)).squeeze(1)
