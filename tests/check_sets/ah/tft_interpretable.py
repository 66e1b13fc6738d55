"""Interpretable multi-head attention of the Temporal Fusion Transformer (Lim et al., eq. 13-16).

Per the paper all heads share ONE value projection, and the head outputs are averaged, so that the
averaged weights can be read as a single temporal pattern. The decoder is causal.
"""
import torch
import torch.nn as nn


class GLU(nn.Module):
    def __init__(self, d, p=0.0):
        super().__init__()
        self.drop, self.fc = nn.Dropout(p), nn.Linear(d, 2 * d)

    def forward(self, x):
        return nn.functional.glu(self.fc(self.drop(x)), dim=-1)


class GRN(nn.Module):
    def __init__(self, d, p=0.0):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
        self.g, self.n = GLU(d, p), nn.LayerNorm(d)

    def forward(self, x):
        return self.n(x + self.g(self.b(nn.functional.elu(self.a(x)))))


class InterpretableMultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_head, dropout=0.0):
        super().__init__()
        self.d_k = d_model // n_head
        self.qs = nn.ModuleList(nn.Linear(d_model, self.d_k) for _ in range(n_head))
        self.ks = nn.ModuleList(nn.Linear(d_model, self.d_k) for _ in range(n_head))
        self.v = nn.Linear(d_model, self.d_k)
        self.w_h = nn.Linear(self.d_k, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        """mask: bool, broadcastable to [B, Tq, Tk], True = must not be seen. Returns output, [B, H, Tq, Tk]."""
        val = self.v(v)
        heads, attns = [], []
        for wq, wk in zip(self.qs, self.ks):
            s = torch.bmm(wq(q), wk(k).transpose(1, 2)) / self.d_k ** 0.5
            if mask is not None:
                s = s.masked_fill(mask, -1e9)
            a = s.softmax(dim=-1)
            attns.append(a)
            heads.append(torch.bmm(self.dropout(a), val))
        out = torch.stack(heads).mean(0)
        return self.w_h(out), torch.stack(attns, 1)


class TemporalDecoder(nn.Module):
    """history [B, E, d], future [B, F, d] -> quantiles of the F future steps"""

    def __init__(self, d=32, heads=4, quantiles=(0.1, 0.5, 0.9), p=0.1):
        super().__init__()
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.dec = nn.LSTM(d, d, batch_first=True)
        self.static = GRN(d, p)
        self.att = InterpretableMultiHeadAttention(d, heads, p)
        self.gate, self.norm = GLU(d, p), nn.LayerNorm(d)
        self.out = nn.Linear(d, len(quantiles))

    def forward(self, hist, fut):
        e, state = self.enc(hist)
        f, _ = self.dec(fut, state)
        x = self.static(torch.cat([e, f], 1))
        E, T = hist.size(1), x.size(1)
        q_pos = torch.arange(E, T, device=x.device)[:, None]
        mask = torch.arange(T, device=x.device)[None, :] > q_pos
        y, w = self.att(x[:, E:], x, x, mask[None])
        y = self.norm(x[:, E:] + self.gate(y))
        return self.out(y), w


def pinball(y, pred, quantiles):
    q = torch.tensor(quantiles, device=pred.device)
    d = y.unsqueeze(-1) - pred
    return torch.maximum(q * d, (q - 1) * d).mean()
