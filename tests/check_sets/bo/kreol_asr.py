"""Listen-Attend-Spell pou kreol ayisyen -- atansyon miltitèt dekodè a.

Atansyon an se pwodwi eskalè nòmalize (Vaswani et al.); pwa yo retounen pou
aliyen tèks ak son, chak liy fè yon sòm 1.
"""
import torch
import torch.nn as nn

LÈT = "abcdefghijklmnopqrstuvwxyzàèòñ' "


class AtansyonSon(nn.Module):
    """
    dekode : (B, U, D)   eta dekodè a, yon eta pou chak lèt
    son    : (B, T, D)   ankadreman son yo
    longè  : (B,)        konbyen ankadreman ki vrè
    Retou  : kontèks (B, U, D), pwa (B, H, U, T) -- distribisyon pwobabilite
    """

    def __init__(self, D=32, H=4, p=0.1):
        super().__init__()
        self.H, self.d = H, D // H
        self.lq, self.lk = nn.Linear(D, D), nn.Linear(D, D)
        self.lv, self.lo = nn.Linear(D, D), nn.Linear(D, D)
        self.drop = nn.Dropout(p)

    def _tèt(self, t):
        return t.view(t.size(0), t.size(1), self.H, self.d).transpose(1, 2)

    def forward(self, dekode, son, longè=None):
        q, k, v = self._tèt(self.lq(dekode)), self._tèt(self.lk(son)), self._tèt(self.lv(son))
        s = q @ k.transpose(-1, -2)
        s = s / k.size(-2) ** 0.5
        if longè is not None:
            vid = torch.arange(son.size(1), device=son.device)[None] >= longè[:, None]
            s = s.masked_fill(vid[:, None, None], float("-inf"))
        pwa = s.softmax(-1)
        pwa = self.drop(pwa)
        y = (pwa @ v).transpose(1, 2).flatten(2)
        return self.lo(y), pwa


class Dekodè(nn.Module):
    def __init__(self, D=32):
        super().__init__()
        self.anb = nn.Embedding(len(LÈT) + 1, D, padding_idx=len(LÈT))
        self.rnn = nn.GRU(D, D, batch_first=True)
        self.att = AtansyonSon(D)
        self.soti = nn.Linear(2 * D, len(LÈT))

    def forward(self, tèks, son, longè):
        h, _ = self.rnn(self.anb(tèks))
        c, pwa = self.att(h, son, longè)
        return self.soti(torch.cat([h, c], -1)), pwa


def pèt_gide(pwa, sigma=0.3):
    """Guided attention loss: aliyman an dwe swiv dyagonal la."""
    U, T = pwa.shape[-2:]
    u = torch.arange(U, device=pwa.device)[:, None] / U
    t = torch.arange(T, device=pwa.device)[None] / T
    W = 1 - torch.exp(-((u - t) ** 2) / (2 * sigma ** 2))
    return (pwa * W).mean()
