"""RETAIN-style interpretable model for heart-failure prediction.

codes    (B, T, V) float  multi-hot diagnosis codes, visit 0 is the oldest
n_visits (B,) int         number of real visits of each patient, 1 <= n <= T;
                          rows from n_visits on are padding

Two GRUs read the real visits from the newest to the oldest.  alpha is a
softmax over the patient's real visits, beta a tanh gate per embedding unit:

    context = sum_t alpha_t * beta_t * emb_t
    logit   = w . context + b            -> (B,)
"""
import torch
import torch.nn as nn


def flip_valid(x, n):
    """reverse the first n[b] rows of x[b]; the padding stays at the end."""
    T = x.shape[1]
    t = torch.arange(T, device=x.device)[None, :].expand(x.shape[0], T)
    src = torch.where(t < n[:, None], n[:, None] - 1 - t, t)
    return x.gather(1, src[..., None].expand_as(x))


class RETAIN(nn.Module):
    def __init__(self, n_codes, emb=16, hid=12):
        super().__init__()
        self.emb = nn.Linear(n_codes, emb, bias=False)
        self.gru_a = nn.GRU(emb, hid, batch_first=True)
        self.gru_b = nn.GRU(emb, hid, batch_first=True)
        self.w_a = nn.Linear(hid, 1)
        self.w_b = nn.Linear(hid, emb)
        self.cls = nn.Linear(emb, 1)

    def forward(self, codes, n_visits, return_alpha=False):
        v = self.emb(codes)
        rev = flip_valid(v, n_visits)
        g, _ = self.gru_a(rev)
        h, _ = self.gru_b(rev)
        g = flip_valid(g, n_visits)
        h = flip_valid(h, n_visits)

        e = self.w_a(g).squeeze(-1)
        real = torch.arange(codes.shape[1], device=codes.device)[None] < n_visits[:, None]
        alpha = torch.softmax(e.masked_fill(~real, -torch.inf), dim=1)
        beta = torch.tanh(self.w_b(h))
        ctx = (alpha.unsqueeze(-1) * beta * v).sum(dim=1)
        y = self.cls(ctx).squeeze(-1)
        return (y, alpha) if return_alpha else y
