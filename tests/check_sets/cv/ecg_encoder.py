import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderLayer(nn.Module):
    """Post-norm transformer encoder layer for 12-lead ECG beats.

    x    (batch, beats, model)
    mask (batch, beats), 1 for a beat and 0 for padding; padded beats are ignored as keys.
    Returns x of the same shape and the attention weights (batch, heads, beats, beats).
    """

    def __init__(self, model=32, heads=4, inner=48, dropout=0.1):
        super().__init__()
        self.heads, self.dk = heads, model // heads
        self.lq, self.lk, self.lv = nn.Linear(model, model), nn.Linear(model, model), nn.Linear(model, model)
        self.fc = nn.Linear(model, model)
        self.w1, self.w2 = nn.Linear(model, inner), nn.Linear(inner, model)
        self.ln1, self.ln2 = nn.LayerNorm(model), nn.LayerNorm(model)
        self.drop = nn.Dropout(dropout)

    def attention(self, x, mask):
        n, t, m = x.size()
        q = self.lq(x).view(n, t, self.heads, self.dk).transpose(1, 2)
        k = self.lk(x).view(n, t, self.heads, self.dk).transpose(1, 2)
        v = self.lv(x).view(n, t, self.heads, self.dk).transpose(1, 2)
        # scaled dot product
        s = torch.matmul(q, k.transpose(2, 3)) / (k.size(-2) ** 0.5)
        if mask is not None:
            s = s.masked_fill(mask[:, None, None, :] == 0, 1e-9)
        a = F.softmax(s, dim=-1)
        y = torch.matmul(self.drop(a), v)
        return y.reshape(n, t, m), a

    def forward(self, x, mask=None):
        y, a = self.attention(x, mask)
        x = self.ln1(x + self.drop(self.fc(y)))
        x = self.ln2(x + self.drop(self.w2(F.relu(self.w1(x)))))
        return x, a
