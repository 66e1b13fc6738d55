"""P/S phase picking on three-component seismograms.

Attention rewritten from an old TF-1 file (Kyubyong style: split the channels, concat the pieces
along the batch axis).
"""
import torch
from torch import nn
import torch.nn.functional as F


def multihead_attention(queries, keys, wq, wk, wv, num_heads, key_masks=None, dropout=0.0, training=False):
    """queries [N, T_q, C], keys [N, T_k, C], key_masks [N, T_k] (1 = sample exists, 0 = gap).

    Returns [N, T_q, C]: every sample of the batch attends to its own trace, head outputs side by
    side in the channel axis.
    """
    Q, K, V = wq(queries), wk(keys), wv(keys)
    N, T_q, C = Q.shape

    # Split and concat
    Q_ = torch.cat(torch.chunk(Q, num_heads, dim=2), dim=0)     # (h*N, T_q, C/h)
    K_ = torch.cat(torch.chunk(K, num_heads, dim=2), dim=0)     # (h*N, T_k, C/h)
    V_ = torch.cat(torch.chunk(V, num_heads, dim=2), dim=0)     # (h*N, T_k, C/h)

    # Multiplication, scale
    outputs = torch.bmm(Q_, K_.transpose(1, 2)) / (K_.shape[-1] ** 0.5)

    # Key masking
    if key_masks is not None:
        m = key_masks.repeat(num_heads, 1).unsqueeze(1)         # (h*N, 1, T_k)
        outputs = outputs.masked_fill(m == 0, -2.0 ** 32 + 1)

    outputs = torch.softmax(outputs, dim=-1)
    outputs = F.dropout(outputs, dropout, training)
    outputs = torch.bmm(outputs, V_)                            # (h*N, T_q, C/h)

    # Restore shape
    outputs = outputs.reshape(N, num_heads, T_q, C // num_heads)
    return outputs.transpose(1, 2).reshape(N, T_q, C)


class WaveAttention(nn.Module):
    def __init__(self, channels, num_heads=4, dropout=0.1):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.wq = nn.Linear(channels, channels, bias=False)
        self.wk = nn.Linear(channels, channels, bias=False)
        self.wv = nn.Linear(channels, channels, bias=False)
        self.norm = nn.LayerNorm(channels)

    def forward(self, x, key_masks=None):
        y = multihead_attention(x, x, self.wq, self.wk, self.wv, self.num_heads, key_masks, self.dropout, self.training)
        return self.norm(x + y)


class ResCNN(nn.Module):
    def __init__(self, c, k=3):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm1d(c), nn.ReLU(), nn.Conv1d(c, c, k, padding=k // 2),
                                  nn.BatchNorm1d(c), nn.ReLU(), nn.Conv1d(c, c, k, padding=k // 2))

    def forward(self, x):
        return x + self.body(x)


class PhasePicker(nn.Module):
    def __init__(self, c=32, heads=4, downs=4):
        super().__init__()
        chans = [3] + [c] * downs
        self.down = nn.Sequential(*[nn.Sequential(nn.Conv1d(a, b, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2))
                                    for a, b in zip(chans, chans[1:])])
        self.res = nn.Sequential(ResCNN(c), ResCNN(c, 5))
        self.lstm = nn.LSTM(c, c // 2, batch_first=True, bidirectional=True)
        self.att = nn.ModuleList([WaveAttention(c, heads) for _ in range(2)])
        self.heads = nn.ModuleDict({n: nn.Conv1d(c, 1, 5, padding=2) for n in ("detection", "P", "S")})
        self.factor = 2 ** downs

    def forward(self, wave, present=None):
        """wave [N, 3, samples]; present [N, samples] 1/0"""
        x = self.res(self.down(wave)).transpose(1, 2)
        x, _ = self.lstm(x)
        m = None
        if present is not None:
            m = F.max_pool1d(present.unsqueeze(1).to(x.dtype), self.factor).squeeze(1)
        for a in self.att:
            x = a(x, m)
        x = F.interpolate(x.transpose(1, 2), scale_factor=self.factor, mode="linear")
        return {n: torch.sigmoid(h(x)).squeeze(1) for n, h in self.heads.items()}
