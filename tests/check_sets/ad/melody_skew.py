import torch
import torch.nn as nn
import torch.nn.functional as F


def skew(QE):
    """(B, h, L, L) -> (B, h, L, L); entry (i, j) of the result is column L-1-(i-j) of row i.

    Entries above the diagonal hold rubbish.
    """
    B, h, L, _ = QE.shape
    padded = F.pad(QE, (1, 0))
    return padded.view(B, h, L + 1, L)[:, :, 1:, :]


class MelodyAttention(nn.Module):
    """Autoregressive attention over note events with learned relative distances.

    Er[-1] is for distance 0, Er[-2] for distance 1 and so on. x (B, L, D), L <= max_len.
    """

    def __init__(self, D, h, max_len=512, p=0.0):
        super().__init__()
        if D % h:
            raise ValueError("D must be a multiple of h")
        self.h, self.dh, self.max_len = h, D // h, max_len
        self.qkv = nn.Linear(D, 3 * D)
        self.fc = nn.Linear(D, D)
        self.Er = nn.Parameter(torch.randn(max_len, self.dh) * 0.02)
        self.p = p
        m = torch.tril(torch.ones(max_len, max_len)).bool()
        self.register_buffer("past", m, persistent=False)

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.view(B, L, self.h, self.dh).permute(0, 2, 1, 3) for t in (q, k, v))
        Er = self.Er[self.max_len - L:]
        Srel = skew(q @ Er.t())
        logits = (q @ k.transpose(2, 3) + Srel) * (self.dh ** -0.5)
        logits = torch.where(self.past[:L, :L], logits, torch.finfo(logits.dtype).min)
        w = F.dropout(F.softmax(logits, -1), self.p, self.training)
        return self.fc((w @ v).permute(0, 2, 1, 3).reshape(B, L, D))
