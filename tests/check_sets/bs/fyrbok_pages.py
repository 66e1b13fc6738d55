# fyrbok: sidebasert nøkkel/verdi-lager for fyrvokternes dagbøker
#
# Hver forespørsel har en tabell over sider (blocks) i et felles lager. Ved dekoding er
# det nøyaktig én ny spørring pr. forespørsel; alt som ligger i lageret er fortid, så det
# trengs ingen kausal maske, bare lengden (lens) til hver dagbok.
import math

import torch

SIDE = 4                 # antall tokens pr. side


class Sidelager:
    """Felles lager. k og v: [sider, SIDE, kv_hoder, dim]."""

    def __init__(self, sider, kv_hoder, dim, dtype=torch.float32):
        self.k = torch.full((sider, SIDE, kv_hoder, dim), float("nan"), dtype=dtype)
        self.v = torch.full((sider, SIDE, kv_hoder, dim), float("nan"), dtype=dtype)
        self.ledige = list(range(sider))[::-1]
        self.tabell = {}
        self.lengde = {}

    def aapne(self, bok):
        self.tabell[bok] = []
        self.lengde[bok] = 0

    def skriv(self, bok, k, v):
        """k, v: [kv_hoder, dim] for neste token i boka."""
        n = self.lengde[bok]
        if n % SIDE == 0:
            if not self.ledige:
                raise MemoryError("lageret er fullt")
            self.tabell[bok].append(self.ledige.pop())
        side = self.tabell[bok][n // SIDE]
        self.k[side, n % SIDE] = k
        self.v[side, n % SIDE] = v
        self.lengde[bok] = n + 1

    def lukk(self, bok):
        self.ledige.extend(self.tabell.pop(bok))
        del self.lengde[bok]

    def samle(self, boker):
        bredde = max(len(self.tabell[b]) for b in boker)
        blocks = torch.zeros(len(boker), bredde, dtype=torch.long)
        for i, b in enumerate(boker):
            blocks[i, : len(self.tabell[b])] = torch.tensor(self.tabell[b], dtype=torch.long)
        lens = torch.tensor([self.lengde[b] for b in boker])
        return blocks, lens


def les_sider(q, k_lager, v_lager, blocks, lens, scale=None):
    """Én dekoderingsrunde.

    q        [B, H, d]        nyeste token i hver bok
    k_lager  [N, SIDE, G, d]  H er et multiplum av G; hode h hører til gruppe h // (H // G)
    blocks   [B, M] int       sidenumre i rekkefølge, resten er fyll
    lens     [B] int          antall skrevne tokens (minst 1)
    gir      [B, H, d]
    """
    B, H, d = q.shape
    side, G = k_lager.shape[1], k_lager.shape[2]
    scale = 1.0 / math.sqrt(d) if scale is None else scale
    spor = q.float().reshape(B, G, H // G, d) * scale

    topp = torch.full((B, G, H // G), float("-inf"))
    sum_ = torch.zeros(B, G, H // G)
    svar = torch.zeros(B, G, H // G, v_lager.shape[-1])
    plass = torch.arange(side)

    for m in range(blocks.shape[1]):
        skrevet = (m * side + plass)[None, :] < lens[:, None]            # [B, side]
        k = k_lager[blocks[:, m]].float()                                # [B, side, G, d]
        v = v_lager[blocks[:, m]].float()
        # uskrevne plasser kan inneholde hva som helst, også NaN
        v = torch.where(skrevet[:, :, None, None], v, torch.zeros(()))
        s = torch.einsum("bgrd,btgd->bgrt", spor, k)
        s = torch.where(skrevet[:, None, None, :], s, torch.full((), float("-inf")))
        ny_topp = torch.maximum(topp, s.amax(-1))
        gammel = torch.exp(topp - ny_topp)
        e = torch.exp(s - ny_topp[..., None])
        sum_ = sum_ * gammel + e.sum(-1)
        svar = svar * gammel[..., None] + torch.einsum("bgrt,btgd->bgrd", e, v)
        topp = ny_topp

    return (svar / sum_[..., None]).reshape(B, H, -1).to(q.dtype)


if __name__ == "__main__":
    torch.manual_seed(0)
    lager = Sidelager(16, kv_hoder=2, dim=8)
    for bok, n in (("Utsira", 6), ("Ryvingen", 3)):
        lager.aapne(bok)
        for _ in range(n):
            lager.skriv(bok, torch.randn(2, 8), torch.randn(2, 8))
    blocks, lens = lager.samle(["Utsira", "Ryvingen"])
    print(les_sider(torch.randn(2, 4, 8), lager.k, lager.v, blocks, lens).shape)
