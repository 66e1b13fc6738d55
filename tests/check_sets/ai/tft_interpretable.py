"""Building blocks of the temporal fusion forecaster (Lim et al. 2021), torch rewrite of the TF1 code."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GLU(nn.Module):
    def __init__(self, n_in, n_out, dropout=0.0):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.lin = nn.Linear(n_in, 2 * n_out)

    def forward(self, x):
        return F.glu(self.lin(self.drop(x)), dim=-1)


class GRN(nn.Module):
    def __init__(self, n_in, n_hidden, n_out, dropout=0.0, n_ctx=0):
        super().__init__()
        self.skip = nn.Linear(n_in, n_out) if n_in != n_out else nn.Identity()
        self.fc1 = nn.Linear(n_in, n_hidden)
        self.ctx = nn.Linear(n_ctx, n_hidden, bias=False) if n_ctx else None
        self.fc2 = nn.Linear(n_hidden, n_hidden)
        self.gate = GLU(n_hidden, n_out, dropout)
        self.norm = nn.LayerNorm(n_out)

    def forward(self, x, c=None):
        h = self.fc1(x)
        if c is not None:
            h = h + self.ctx(c)
        return self.norm(self.skip(x) + self.gate(self.fc2(F.elu(h))))


class InterpretableMultiHeadAttention(nn.Module):
    """Eq. (13)-(16) of the paper: every head has its own W_Q and W_K but all heads
    share ONE value projection, and the heads are averaged, so that the mean weight
    matrix can be read as "importance of the past".

    Only the forecast steps ask: q [B, tau, D] against the whole horizon k, v [B, T, D].
    """

    def __init__(self, d_model, n_head, dropout=0.1):
        super().__init__()
        self.d_head = d_model // n_head
        self.wq = nn.ModuleList([nn.Linear(d_model, self.d_head, bias=False) for _ in range(n_head)])
        self.wk = nn.ModuleList([nn.Linear(d_model, self.d_head, bias=False) for _ in range(n_head)])
        self.wv = nn.Linear(d_model, self.d_head, bias=False)
        self.wh = nn.Linear(self.d_head, d_model, bias=False)
        self.attn_drop = nn.Dropout(dropout)
        self.out_drop = nn.Dropout(dropout)

    def forward(self, q, k, v, blocked=None):
        """blocked: bool, broadcastable to [B, tau, T], True = must not be used."""
        value = self.wv(v)
        heads, maps = [], []
        for wq, wk in zip(self.wq, self.wk):
            score = torch.bmm(wq(q), wk(k).transpose(1, 2)) / self.d_head ** 0.5
            if blocked is not None:
                score = score.masked_fill(blocked, -1e9)
            a = torch.softmax(score, dim=2)
            maps.append(a)
            heads.append(torch.bmm(self.attn_drop(a), value))
        mean_head = torch.stack(heads, dim=0).mean(dim=0)
        mean_map = torch.stack(maps, dim=0).mean(dim=0)
        return self.out_drop(self.wh(mean_head)), mean_map


def decoder_block(n_past, n_future, device=None):
    """Forecast step i may see all the past and the forecast steps up to itself."""
    total = n_past + n_future
    i = torch.arange(n_past, total, device=device)[:, None]
    j = torch.arange(total, device=device)[None, :]
    return (j > i).unsqueeze(0)


class TemporalDecoder(nn.Module):
    def __init__(self, d_model=32, n_head=4, dropout=0.1, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.enrich = GRN(d_model, d_model, d_model, dropout, n_ctx=d_model)
        self.attn = InterpretableMultiHeadAttention(d_model, n_head, dropout)
        self.gate = GLU(d_model, d_model, dropout)
        self.norm = nn.LayerNorm(d_model)
        self.ff = GRN(d_model, d_model, d_model, dropout)
        self.out = nn.Linear(d_model, len(quantiles))

    def forward(self, temporal, static, n_past):
        """temporal [B, T, D] from the LSTM, static [B, D]"""
        x = self.enrich(temporal, static.unsqueeze(1))
        future = x[:, n_past:]
        blocked = decoder_block(n_past, x.size(1) - n_past, x.device)
        a, importance = self.attn(future, x, x, blocked)
        y = self.norm(future + self.gate(a))
        return self.out(self.ff(y)), importance


def quantile_loss(pred, target, quantiles=(0.1, 0.5, 0.9)):
    e = target.unsqueeze(-1) - pred
    q = torch.tensor(quantiles, device=pred.device)
    return torch.maximum(q * e, (q - 1) * e).sum(-1).mean()
