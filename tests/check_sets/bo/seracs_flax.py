"""Surveillance de séracs (Valais) : images radar interférométrique -> vitesse.

Un token = une cellule de glacier.  Logits plafonnés par tanh, masque des
cellules à l'ombre radar.  Flax, une seule classe utile.
"""
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp

ALERTE_CM_PAR_JOUR = 25.0


@dataclass(frozen=True)
class Reglages:
    largeur: int = 32
    tetes: int = 4
    plafond: float = 5.0
    couches: int = 2


class AttentionGlacier(nn.Module):
    """cellules [B, N, C], ombre [B, N] bool (True = cellule dans l'ombre radar ;
    elle n'a aucune influence sur les autres) -> [B, N, C]."""

    r: Reglages = Reglages()

    def setup(self):
        self.qkv = nn.Dense(3 * self.r.largeur, use_bias=False)
        self.sortie = nn.Dense(self.r.largeur)

    def __call__(self, cellules, ombre=None):
        B, N, C = cellules.shape
        H = self.r.tetes
        q, k, v = jnp.split(self.qkv(cellules), 3, axis=-1)
        q, k, v = (t.reshape(B, N, H, C // H).transpose(0, 2, 1, 3) for t in (q, k, v))
        s = q @ k.swapaxes(-1, -2) * (C // H) ** -0.5
        if ombre is not None:
            s = jnp.where(ombre[:, None, None, :], -jnp.inf, s)
        # plafonnement doux : les logits restent dans ]-plafond, plafond[
        s = self.r.plafond * jnp.tanh(s / self.r.plafond)
        p = nn.softmax(s, axis=-1)
        y = (p @ v).transpose(0, 2, 1, 3).reshape(B, N, C)
        return self.sortie(y)


class ModeleSerac(nn.Module):
    r: Reglages = Reglages()

    @nn.compact
    def __call__(self, radar, ombre=None):
        h = nn.Dense(self.r.largeur)(radar)
        for i in range(self.r.couches):
            h = h + AttentionGlacier(self.r, name=f"bloc_{i}")(nn.RMSNorm()(h), ombre)
        return nn.softplus(nn.Dense(1)(h))[..., 0]


def alerte(vitesse, ombre):
    """Indices des cellules visibles qui dépassent le seuil."""
    v = jnp.where(ombre, 0.0, vitesse)
    return [tuple(int(i) for i in ij) for ij in jnp.argwhere(v > ALERTE_CM_PAR_JOUR)]


def deroule_phase(phi):
    """Déroulement 1-D naïf de la phase interférométrique."""
    d = jnp.diff(phi)
    d = (d + jnp.pi) % (2 * jnp.pi) - jnp.pi
    return jnp.concatenate([phi[:1], phi[0] + jnp.cumsum(d)])


if __name__ == "__main__":
    cle = jax.random.PRNGKey(1)
    x = jax.random.normal(cle, (2, 10, 6))
    ombre = jnp.arange(10)[None] >= jnp.array([[8], [10]])
    m = ModeleSerac()
    par = m.init(cle, x, ombre)
    print(alerte(m.apply(par, x, ombre) * 40, ombre))
