"""Temporal fusion pieces for the demand forecaster.

InterpretableMHA follows section 4.4 of the TFT paper: each head owns its query and key
projection, the value projection is common to all heads, and the heads are averaged so
that one weight matrix describes the model.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedResidual(nn.Module):
    def __init__(self, n, p=0.1):
        super().__init__()
        self.a = nn.Linear(n, n)
        self.b = nn.Linear(n, n)
        self.g = nn.Linear(n, 2 * n)
        self.ln = nn.LayerNorm(n)
        self.p = p

    def forward(self, x):
        h = self.b(F.elu(self.a(x)))
        h = F.dropout(h, self.p, self.training)
        return self.ln(x + F.glu(self.g(h), dim=-1))


class InterpretableMHA(nn.Module):
    def __init__(self, n_head, d_model, p=0.0):
        super().__init__()
        self.n_head = n_head
        self.d = d_model // n_head
        self.qs = nn.ModuleList([nn.Linear(d_model, self.d) for _ in range(n_head)])
        self.ks = nn.ModuleList([nn.Linear(d_model, self.d) for _ in range(n_head)])
        self.v = nn.Linear(d_model, self.d)
        self.out = nn.Linear(self.d, d_model, bias=False)
        self.drop = nn.Dropout(p)

    def forward(self, q, k, v, blocked=None):
        """blocked (B, Tq, Tk) bool - True where the key must not be used."""
        vs = self.v(v)
        heads, weights = [], []
        for fq, fk in zip(self.qs, self.ks):
            logit = torch.bmm(fq(q), fk(k).transpose(1, 2)) / self.d ** 0.5
            if blocked is not None:
                logit = logit.masked_fill(blocked, torch.finfo(logit.dtype).min)
            a = F.softmax(logit, dim=2)
            weights.append(a)
            heads.append(torch.bmm(self.drop(a), vs))
        head = torch.stack(heads).mean(0)
        return self.out(head), torch.stack(weights, 1).mean(1)


class TemporalFusionDecoder(nn.Module):
    """history (B, n_past, d) and known future (B, n_fut, d) -> quantiles (B, n_fut, n_q)"""

    def __init__(self, d=32, n_head=4, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.dec = nn.LSTM(d, d, batch_first=True)
        self.enrich = GatedResidual(d)
        self.attn = InterpretableMHA(n_head, d)
        self.ln = nn.LayerNorm(d)
        self.ff = GatedResidual(d)
        self.head = nn.Linear(d, len(quantiles))

    def forward(self, past, future):
        hp, st = self.enc(past)
        hf, _ = self.dec(future, st)
        h = self.enrich(torch.cat([hp, hf], 1))
        n, t = past.size(1), h.size(1)
        steps = torch.arange(t, device=h.device)
        # a future step sees all of the past, the earlier future steps and itself
        blocked = steps[None, :] > steps[n:, None]
        a, w = self.attn(h[:, n:], h, h, blocked.expand(h.size(0), -1, -1))
        return self.head(self.ff(self.ln(h[:, n:] + a))), w
