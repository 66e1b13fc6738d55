# Kanteleen sävelkulkujen ennustaja.
#
# Lineaarinen kausaalinen huomio (Katharopoulos ym. 2020):
#     phi(x) = elu(x) + 1
#     y_t = phi(q_t)^T S_t / (phi(q_t)^T z_t),  S_t = sum_{s<=t} phi(k_s) v_s^T,  z_t = sum phi(k_s)
# Skaalausta 1/sqrt(d) ei ole: ydin ei ole eksponenttifunktio.
# Koulutuksessa kaikki askeleet kerralla (kumulatiivinen summa), soitossa askel kerrallaan
# tilan kanssa.  Molemmat tavat antavat samat luvut.
import torch
import torch.nn as nn
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1.0


class LineaarinenHuomio(nn.Module):
    def __init__(self, leveys, paita, eps=1e-6):
        super().__init__()
        self.paita, self.eps = paita, eps
        self.kysy = nn.Linear(leveys, leveys)
        self.avain = nn.Linear(leveys, leveys)
        self.arvo = nn.Linear(leveys, leveys)
        self.ulos = nn.Linear(leveys, leveys)

    def _jaa(self, x):
        return x.view(*x.shape[:-1], self.paita, -1)          # [..., P, d]

    def forward(self, x, tila=None):
        """x [B, T, leveys]; tila = (S [B,P,d,d], z [B,P,d]) aiemmista askelista tai None."""
        q, k = phi(self._jaa(self.kysy(x))), phi(self._jaa(self.avain(x)))
        v = self._jaa(self.arvo(x))
        S = torch.einsum("btpd,btpe->btpde", k, v).cumsum(1)
        z = k.cumsum(1)
        if tila is not None:
            S = S + tila[0][:, None]
            z = z + tila[1][:, None]
        y = torch.einsum("btpd,btpde->btpe", q, S)
        n = torch.einsum("btpd,btpd->btp", q, z)
        y = y / (n + self.eps).unsqueeze(-1)
        return self.ulos(y.flatten(2)), (S[:, -1], z[:, -1])


class Kantele(nn.Module):
    KIELET = 39

    def __init__(self, leveys=24, paita=3, kerroksia=2):
        super().__init__()
        self.kieli = nn.Embedding(self.KIELET, leveys)
        self.kerrokset = nn.ModuleList()
        for _ in range(kerroksia):
            self.kerrokset.append(nn.ModuleList([
                nn.LayerNorm(leveys),
                LineaarinenHuomio(leveys, paita),
                nn.LayerNorm(leveys),
                nn.Sequential(nn.Linear(leveys, 2 * leveys), nn.SiLU(), nn.Linear(2 * leveys, leveys)),
            ]))
        self.pois = nn.Linear(leveys, self.KIELET)

    def forward(self, kielet, tilat=None):
        h = self.kieli(kielet)
        uudet = []
        for i, (n1, huomio, n2, ff) in enumerate(self.kerrokset):
            y, tila = huomio(n1(h), None if tilat is None else tilat[i])
            uudet.append(tila)
            h = h + y
            h = h + ff(n2(h))
        return self.pois(h), uudet

    @torch.no_grad()
    def soita(self, alku, maara):
        logit, tilat = self(alku)
        savel = logit[:, -1:].argmax(-1)
        tulos = [savel]
        for _ in range(maara - 1):
            logit, tilat = self(savel, tilat)
            savel = logit.argmax(-1)
            tulos.append(savel)
        return torch.cat(tulos, 1)


if __name__ == "__main__":
    torch.manual_seed(1849)
    malli = Kantele()
    alku = torch.randint(0, 39, (1, 6))
    print(malli.soita(alku, 10))
