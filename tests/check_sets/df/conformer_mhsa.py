import torch
import torch.nn as nn
import torch.nn.functional as F


class ConformerBlock(nn.Module):
    """Half-step FFN, self-attention, depthwise convolution, half-step FFN (Gulati et al. 2020).

    x: (B, T, d) log-mel features after subsampling; lens: (B,) valid frames, >= 1.
    """

    def __init__(self, d=32, heads=4, kernel=7, p=0.1):
        super().__init__()
        self.heads, self.dk, self.p = heads, d // heads, p
        ff = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Dropout(p), nn.Linear(4 * d, d))
        self.ff1, self.ff2 = ff(), ff()
        self.ln_att, self.ln_conv, self.ln_out = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (nn.Linear(d, d) for _ in range(4))
        self.pw1 = nn.Linear(d, 2 * d)
        self.dw = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d)
        self.ln_dw = nn.LayerNorm(d)
        self.pw2 = nn.Linear(d, d)

    def mhsa(self, x, valid):
        B, T, _ = x.shape
        q = self.linear_q(x).view(B, T, self.heads, self.dk).transpose(1, 2)
        k = self.linear_k(x).view(B, T, self.heads, self.dk).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.heads, self.dk).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.dk ** 0.5
        scores = scores.masked_fill(~valid[:, None, None, :], torch.finfo(scores.dtype).min)
        attn = F.dropout(torch.softmax(scores, dim=-1), self.p, self.training)
        out = torch.matmul(attn, v).contiguous().view(B, T, self.heads * self.dk)
        return self.linear_out(out)

    def conv(self, x, valid):
        x = F.glu(self.pw1(x), dim=-1) * valid.unsqueeze(-1)
        x = self.dw(x.transpose(1, 2)).transpose(1, 2)
        return self.pw2(F.silu(self.ln_dw(x)))

    def forward(self, x, lens):
        valid = torch.arange(x.size(1), device=x.device)[None] < lens[:, None]
        x = x + 0.5 * self.ff1(x)
        x = x + self.mhsa(self.ln_att(x), valid)
        x = x + self.conv(self.ln_conv(x), valid)
        x = x + 0.5 * self.ff2(x)
        return self.ln_out(x)
