"""Sepsis early warning on ICU time series.

Stunden ohne jede Messung werden als Schluessel ausgeblendet (padding).
"""
import torch
import torch.nn as nn


class VitalSelfAttention(nn.Module):
    """Scaled dot-product self attention over hours.

    x        (B, T, d_model)
    measured (B, T) bool, True = something was measured in that hour; hours without
             measurement must not be attended to by any hour
    """

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.lin = nn.ModuleDict({k: nn.Linear(d_model, d_model) for k in ("q", "k", "v", "o")})
        self.dropout = nn.Dropout(dropout)

    def _shape(self, t):
        b, s, _ = t.shape
        return t.reshape(b, s, self.n_heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, measured=None):
        q = self._shape(self.lin["q"](x))
        k = self._shape(self.lin["k"](x))
        v = self._shape(self.lin["v"](x))
        scale = q.size(-2) ** -0.5
        score = torch.einsum("bhid,bhjd->bhij", q, k) * scale
        if measured is not None:
            score = score.masked_fill(~measured[:, None, :, None], -1e9)
        attn = self.dropout(score.softmax(dim=-1))
        ctx = torch.einsum("bhij,bhjd->bihd", attn, v).flatten(-2)
        return self.lin["o"](ctx)


class SepsisNet(nn.Module):
    def __init__(self, n_vitals=34, d_model=64, n_heads=4, layers=2):
        super().__init__()
        self.inp = nn.Linear(2 * n_vitals, d_model)
        self.att = nn.ModuleList(VitalSelfAttention(d_model, n_heads) for _ in range(layers))
        self.nrm = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.rnn = nn.GRU(d_model, d_model, batch_first=True)
        self.out = nn.Linear(d_model, 1)

    def forward(self, vitals):
        """vitals (B, T, n) with NaN where nothing was measured -> hourly risk (B, T)"""
        known = ~torch.isnan(vitals)
        x = self.inp(torch.cat((torch.nan_to_num(vitals), known.float()), dim=-1))
        hours = known.any(-1)
        for a, n in zip(self.att, self.nrm):
            x = n(x + a(x, hours))
        h, _ = self.rnn(x)
        return self.out(h).squeeze(-1).sigmoid()


def utility(pred, label, t_onset, lead=6):
    """PhysioNet 2019 utility, strongly simplified"""
    early = (pred & label).float().sum(-1)
    false = (pred & ~label).float().sum(-1)
    in_time = (t_onset >= lead).float()
    return (early * in_time - 0.05 * false).mean()


if __name__ == "__main__":
    v = torch.randn(2, 24, 34)
    v[torch.rand_like(v) < 0.7] = float("nan")
    print(SepsisNet().eval()(v).shape)
