# SITS crop classification (S2 L2A, irregular dates), LTAE-ish. nb = n bands, nd = n dates, nh = n heads
import torch
import torch.nn as nn


class SITSAttn(nn.Module):
    """x [bs, nd, dm], cld [bs, nd] (True = cloudy, must not be attended to; >= 1 clear date per px)"""

    def __init__(self, dm=32, nh=4):
        super().__init__()
        self.nh = nh
        self.dk = dm // nh
        self.fq = nn.Linear(dm, dm)
        self.fk = nn.Linear(dm, dm)
        self.fv = nn.Linear(dm, dm)
        self.fo = nn.Linear(dm, dm)

    def _fold(self, t, bs, nd):
        # -> [nh*bs, nd, dk]
        return t.view(bs, nd, self.nh, self.dk).permute(2, 0, 1, 3).reshape(self.nh * bs, nd, self.dk)

    def forward(self, x, cld):
        bs, nd, dm = x.shape
        q = self._fold(self.fq(x), bs, nd)
        k = self._fold(self.fk(x), bs, nd)
        v = self._fold(self.fv(x), bs, nd)
        a = torch.bmm(q, k.transpose(1, 2)) / self.dk**0.5
        m = cld[:, None, :].expand(bs, nd, nd).repeat_interleave(self.nh, dim=0)
        a = a.masked_fill(m, float("-inf"))
        a = torch.softmax(a, dim=2)
        o = torch.bmm(a, v)
        o = o.view(self.nh, bs, nd, self.dk).permute(1, 2, 0, 3).reshape(bs, nd, dm)
        return self.fo(o)


class SITSNet(nn.Module):
    """[bs, nd, nb] reflectances, doy [bs, nd] day of year, cld -> logits [bs, nc]"""

    def __init__(self, nb=10, nc=7, dm=32, nh=4):
        super().__init__()
        self.emb = nn.Linear(nb, dm)
        self.doy = nn.Embedding(367, dm)
        self.att = SITSAttn(dm, nh)
        self.ln = nn.LayerNorm(dm)
        self.clf = nn.Linear(dm, nc)

    def forward(self, x, doy, cld):
        h = self.emb(x) + self.doy(doy)
        h = self.ln(h + self.att(h, cld))
        w = (~cld).to(h.dtype).unsqueeze(-1)
        return self.clf((h * w).sum(1) / w.sum(1))
