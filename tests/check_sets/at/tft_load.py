"""Temporal Fusion Transformer pieces for day-ahead load forecasting."""
import torch
from torch import nn


class GLU(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, 2 * d)

    def forward(self, x):
        return nn.functional.glu(self.fc(x), dim=-1)


class GRN(nn.Module):
    def __init__(self, d, dropout=0.1):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
        self.drop, self.glu, self.norm = nn.Dropout(dropout), GLU(d), nn.LayerNorm(d)

    def forward(self, x):
        h = self.drop(self.b(nn.functional.elu(self.a(x))))
        return self.norm(x + self.glu(h))


class InterpretableMultiHead(nn.Module):
    """TFT eq. (13)-(16): every head has its own query and key weights while the value
    weights are shared across the heads; the head outputs are averaged, so that
    the mean attention matrix can be read as importance."""

    def __init__(self, d_model, n_head, dropout=0.0):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.v_layer = nn.Linear(d_model, self.d_k)
        self.q_layers = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(n_head)])
        self.k_layers = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(n_head)])
        self.w_h = nn.Linear(self.d_k, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        """q (B, Tq, D), k, v (B, Tk, D), mask (B or 1, Tq, Tk) True = not allowed.
        Returns (B, Tq, D) and the weights (B, Tq, n_head, Tk)."""
        vs = self.v_layer(v)
        outs, attns = [], []
        for ql, kl in zip(self.q_layers, self.k_layers):
            logit = torch.bmm(ql(q), kl(k).transpose(1, 2)) / self.d_k ** 0.5
            if mask is not None:
                logit = logit.masked_fill(mask, -1e9)
            w = logit.softmax(dim=2)
            attns.append(w)
            outs.append(torch.bmm(self.dropout(w), vs))
        out = torch.stack(outs, dim=2).mean(dim=2)
        return self.w_h(out), torch.stack(attns, dim=2)


def decoder_mask(n_enc, n_dec, device=None):
    """Decoder step i (absolute position n_enc + i) sees positions <= n_enc + i."""
    pos = torch.arange(n_enc + n_dec, device=device)
    return (pos[None, :] > (n_enc + torch.arange(n_dec, device=device))[:, None])[None]


class LoadDecoder(nn.Module):
    def __init__(self, d=32, heads=4, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.dec = nn.LSTM(d, d, batch_first=True)
        self.att = InterpretableMultiHead(d, heads, 0.1)
        self.gate, self.norm, self.ff = GLU(d), nn.LayerNorm(d), GRN(d)
        self.q = nn.Linear(d, len(quantiles))
        self.quantiles = quantiles

    def forward(self, past, known_future):
        h, state = self.enc(past)
        f, _ = self.dec(known_future, state)
        seq = torch.cat([h, f], dim=1)
        y, w = self.att(f, seq, seq, decoder_mask(h.size(1), f.size(1), past.device))
        y = self.norm(f + self.gate(y))
        return self.q(self.ff(y)), w

    def loss(self, pred, y):
        e = y.unsqueeze(-1) - pred
        q = pred.new_tensor(self.quantiles)
        return torch.maximum(q * e, (q - 1) * e).mean()
