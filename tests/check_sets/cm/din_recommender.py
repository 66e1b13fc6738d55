"""Deep Interest Network for click prediction (Zhou et al., 2018)."""
import torch
import torch.nn as nn


class LocalActivationUnit(nn.Module):
    """Weights the user's past items by their relevance to the candidate ad.

    As in the paper the weights are NOT normalised: sum pooling with raw
    activations keeps the intensity of the user's interest.
    """

    def __init__(self, dim, hidden=16):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4 * dim, hidden), nn.PReLU(), nn.Linear(hidden, 1))

    def forward(self, ad, history, mask):
        # ad (B, D), history (B, L, D), mask (B, L) 1 = real click
        a = ad.unsqueeze(1).expand_as(history)
        w = self.mlp(torch.cat((a, history, a - history, a * history), dim=-1))  # (B, L, 1)
        w = w * mask.unsqueeze(-1).to(w.dtype)
        return (w * history).sum(dim=1)


class DIN(nn.Module):
    def __init__(self, n_items=100, dim=8, n_profile=5):
        super().__init__()
        self.emb = nn.Embedding(n_items, dim, padding_idx=0)
        self.unit = LocalActivationUnit(dim)
        self.head = nn.Sequential(nn.Linear(2 * dim + n_profile, 24), nn.PReLU(), nn.Linear(24, 1))

    def forward(self, ad_id, history_ids, profile):
        """ad_id (B,), history_ids (B, L) zero padded, profile (B, n_profile) -> logit (B,)"""
        ad = self.emb(ad_id)
        interest = self.unit(ad, self.emb(history_ids), history_ids != 0)
        return self.head(torch.cat((ad, interest, profile), dim=-1)).squeeze(-1)
