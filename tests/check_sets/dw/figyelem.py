"""Figyelem-réteg külső emlékezettel (kereszt-figyelem, "null" kulccsal).

figyelem(kerdes, kulcs, ertek, rejtett=None, nulla=None)
    kerdes   (B, fej, Lk, d)     a kérdések
    kulcs    (B, fej, Le, d)     az emlékek kulcsai,  ertek (B, fej, Le, dv) az értékeik
    rejtett  (B, Le) bool        True = az emlék rejtett, nem látható (akár mind az lehet)
    nulla    (fej, d)            tanult "semmi" kulcs, értéke a csupa nulla vektor
Visszaad: (B, fej, Lk, dv).

    súly = softmax( kerdes·kulcs / sqrt(d) )  a látható emlékeken ÉS a null kulcson együtt
Mivel a null kulcs mindig látható, teljesen rejtett emlékezetnél az eredmény nulla.
If `nulla` is None, a plain null key of zeros is used (its logit is 0: "softmax plus one").
"""
import torch


def figyelem(kerdes, kulcs, ertek, rejtett=None, nulla=None):
    d = kerdes.size(-1)
    pont = torch.einsum("bfkd,bfed->bfke", kerdes, kulcs) * d ** -0.5
    if rejtett is not None:
        pont = pont.masked_fill(rejtett[:, None, None, :], float("-inf"))

    if nulla is None:
        semmi = torch.zeros_like(pont[..., :1])
    else:
        semmi = torch.einsum("bfkd,fd->bfk", kerdes, nulla).unsqueeze(-1) * d ** -0.5

    csucs = torch.maximum(pont.amax(dim=-1, keepdim=True), semmi)
    felso = torch.exp(pont - csucs)
    also = felso.sum(dim=-1, keepdim=True) + torch.exp(semmi - csucs)
    return torch.einsum("bfke,bfew->bfkw", felso / also, ertek)
