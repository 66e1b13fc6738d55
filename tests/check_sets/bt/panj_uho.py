# panj_uho: poslusa cebelji panj in pove, ali se druzina pripravlja na rojenje
# (ESP32 poslje vsako sekundo en vektor mel-pasov; tu tece model po en korak naenkrat)
import torch
import torch.nn as nn

PASOVI = 24
OKNO = 6          # koliko zadnjih sekund vidi pozornost, trenutna je vsteta


class Obroc:
    """Krozni pomnilnik kljucev in vrednosti. Polje `cas` hrani sekundo vsakega predala."""

    def __init__(self, serija, glav, velikost, sirina, kje=None, tip=torch.float32):
        self.k = torch.zeros(serija, glav, velikost, sirina, device=kje, dtype=tip)
        self.v = torch.zeros_like(self.k)
        self.cas = torch.full((velikost,), -1, dtype=torch.long, device=kje)
        self.naslednji = 0

    def vpisi(self, k, v):
        predal = self.naslednji % self.k.shape[2]
        self.k[:, :, predal] = k
        self.v[:, :, predal] = v
        self.cas[predal] = self.naslednji
        self.naslednji += 1

    @property
    def polni(self):
        return self.cas >= 0


class Vrtenje:
    """RoPE, prepleteni pari (0,1), (2,3) ..."""

    def __init__(self, sirina, osnova=1000.0):
        self.frek = osnova ** (-torch.arange(0, sirina, 2).float() / sirina)

    def __call__(self, x, sekunda):
        kot = sekunda * self.frek.to(x)
        c, s = kot.cos(), kot.sin()
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


class PanjUho(nn.Module):
    """Pozornost z deljenimi kljuci (gqa): poizvedbenih glav je `glav`, kljucnih `skupin`.

    korak(x, obroc) dobi x oblike [B, D] za eno sekundo in vrne [B, D].
    Poizvedbena glava h bere kljucno glavo h // (glav // skupin).
    """

    def __init__(self, D=32, glav=4, skupin=2):
        super().__init__()
        assert glav % skupin == 0
        self.glav, self.skupin, self.d = glav, skupin, D // glav
        self.q = nn.Linear(D, glav * self.d, bias=False)
        self.kv = nn.Linear(D, 2 * skupin * self.d, bias=False)
        self.o = nn.Linear(D, D, bias=False)
        self.zavrti = Vrtenje(self.d)

    def nov_obroc(self, serija):
        return Obroc(serija, self.skupin, OKNO, self.d, self.o.weight.device, self.o.weight.dtype)

    def korak(self, x, obroc):
        B = x.shape[0]
        t = obroc.naslednji
        k, v = self.kv(x).view(B, 2, self.skupin, self.d).unbind(1)
        obroc.vpisi(self.zavrti(k, t), v)
        q = self.zavrti(self.q(x).view(B, self.glav, self.d), t)
        q = q.view(B, self.skupin, -1, self.d)            # [B, skupin, glav/skupin, d]
        # vrstni red predalov je vseeno: polozaj je ze zapisan v zavrtenih kljucih
        ocena = torch.einsum("bgrd,bgsd->bgrs", q, obroc.k) * self.d ** -0.5
        ocena = ocena.masked_fill(~obroc.polni, float("-inf"))
        teza = torch.softmax(ocena, dim=-1)
        y = torch.einsum("bgrs,bgsd->bgrd", teza, obroc.v)
        return self.o(y.reshape(B, -1))

    def forward(self, niz):
        """niz [B, T, D]: cel posnetek, sekundo za sekundo."""
        obroc = self.nov_obroc(niz.shape[0])
        return torch.stack([self.korak(x, obroc) for x in niz.unbind(1)], 1)


class RojenjeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.vhod = nn.Sequential(nn.Linear(PASOVI, 32), nn.GELU())
        self.uho = PanjUho()
        self.izhod = nn.Linear(32, 1)

    @torch.no_grad()
    def forward(self, mel):
        h = self.vhod(mel)
        return torch.sigmoid(self.izhod(h + self.uho(h))).squeeze(-1)


if __name__ == "__main__":
    torch.manual_seed(3)
    print(RojenjeModel()(torch.rand(1, 15, PASOVI)))
