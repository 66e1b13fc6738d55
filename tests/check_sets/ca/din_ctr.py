"""CTR model for the shop's sponsored slots (Deep Interest Network, KDD'18).

The candidate ad activates the user's past clicks: a small MLP looks at
[click, ad, click - ad, click * ad] and gives one weight per click.  As in the paper
the weights are NOT normalised with a softmax, so that the length of the user vector
says how strong the interest is.  Item id 0 is padding; padded clicks weigh zero.
"""
import torch
from torch import nn


class ActivationUnit(nn.Module):
    def __init__(self, dim, hidden=(36, 16)):
        super().__init__()
        layers, width = [], 4 * dim
        for h in hidden:
            layers += [nn.Linear(width, h), nn.PReLU()]
            width = h
        layers.append(nn.Linear(width, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, ad, clicks, valid):
        ad = ad.unsqueeze(1).expand_as(clicks)
        z = torch.cat([clicks, ad, clicks - ad, clicks * ad], dim=-1)
        w = self.net(z).squeeze(-1)             # [B, T]
        w = w.masked_fill(~valid, 0.0)
        return torch.bmm(w.unsqueeze(1), clicks).squeeze(1), w


class DIN(nn.Module):
    def __init__(self, n_items=1000, dim=16, n_context=4):
        super().__init__()
        self.item_emb = nn.Embedding(n_items, dim, padding_idx=0)
        self.unit = ActivationUnit(dim)
        self.tower = nn.Sequential(
            nn.Linear(2 * dim + n_context, 40),
            nn.PReLU(),
            nn.Linear(40, 1),
        )

    def forward(self, ad_id, click_ids, context):
        """ad_id [B], click_ids [B, T] (0 = pad), context [B, n_context] -> logit [B]"""
        ad = self.item_emb(ad_id)
        clicks = self.item_emb(click_ids)
        interest, _ = self.unit(ad, clicks, click_ids != 0)
        return self.tower(torch.cat([interest, ad, context], dim=-1)).squeeze(-1)
