import torch
from torch import nn


class FeldFenster(nn.Module):
    """Fensterweise Aufmerksamkeit auf Bildern (B, C, H, W), wahlweise verschoben.

    Nur Punkte, die im selben Fenster liegen und vor dem Verschieben Nachbarn waren,
    sehen einander. H und W sind Vielfache von `fenster`.
    """

    def __init__(self, kanaele, koepfe, fenster=4, schub=0):
        super().__init__()
        assert 0 <= schub < fenster
        self.koepfe, self.w, self.schub = koepfe, fenster, schub
        self.qkv = nn.Conv2d(kanaele, 3 * kanaele, 1)
        self.aus = nn.Conv2d(kanaele, kanaele, 1)
        self.tafel = nn.Parameter(torch.randn((2 * fenster - 1) ** 2, koepfe) * 0.1)
        zz, ss = torch.meshgrid(torch.arange(fenster), torch.arange(fenster), indexing="ij")
        zz, ss = zz.flatten(), ss.flatten()
        dz = zz[:, None] - zz[None] + fenster - 1
        ds = ss[:, None] - ss[None] + fenster - 1
        self.register_buffer("nr", dz * (2 * fenster - 1) + ds)

    def zerlegen(self, x):
        b, c, h, w = x.shape
        n = self.w
        x = x.view(b, c, h // n, n, w // n, n).permute(0, 2, 4, 3, 5, 1)
        return x.reshape(b, -1, n * n, c)

    def gebiete(self, h, w, dev):
        def zone(m):
            p = torch.arange(m, device=dev)
            return (p >= m - self.w).long() + (p >= m - self.schub).long()
        g = zone(h)[:, None] * 3 + zone(w)[None]
        g = self.zerlegen(g[None, None])[0, :, :, 0]
        return g[:, :, None] == g[:, None, :]

    def forward(self, x):
        b, c, h, w = x.shape
        if self.schub:
            x = x.roll((-self.schub, -self.schub), (2, 3))
        t = self.zerlegen(self.qkv(x))
        q, k, v = t.unflatten(-1, (3, self.koepfe, -1)).permute(3, 0, 1, 4, 2, 5)
        s = q @ k.mT * q.size(-1) ** -0.5 + self.tafel[self.nr].permute(2, 0, 1)
        if self.schub:
            gleich = self.gebiete(h, w, x.device)
            s = s.masked_fill(~gleich[None, :, None], float("-inf"))
        y = (s.softmax(-1) @ v).transpose(2, 3).flatten(-2)
        n = self.w
        y = y.view(b, h // n, w // n, n, n, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)
        if self.schub:
            y = y.roll((self.schub, self.schub), (2, 3))
        return self.aus(y)
