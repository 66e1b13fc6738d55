from typing import Optional

import flax.linen as nn
import jax.numpy as jnp


class PatientMixer(nn.Module):
    """Attention between the visits of a patient's chart (Vaswani et al. 2017, several heads).

    visits [B, T, F]; real bool [B, T] or None. Scaled dot products, softmax over the real visits.
    A chart without any real visit gives the output bias.
    """
    width: int
    heads: int

    def setup(self):
        per = (self.heads, self.width // self.heads)
        self.ask = nn.DenseGeneral(per)
        self.offer = nn.DenseGeneral(per)
        self.carry = nn.DenseGeneral(per)
        self.back = nn.DenseGeneral(self.width, axis=(-2, -1))

    def __call__(self, visits, real: Optional[jnp.ndarray] = None):
        ask, offer, carry = self.ask(visits), self.offer(visits), self.carry(visits)
        ask = ask / jnp.sqrt(ask.shape[1])
        s = jnp.einsum("bihd,bjhd->bhij", ask, offer)
        if real is not None:
            s = jnp.where(real[:, None, None, :], s, jnp.finfo(s.dtype).min)
        p = nn.softmax(s, axis=-1)
        if real is not None:
            p = p * real[:, None, None, :]
        return self.back(jnp.einsum("bhij,bjhd->bihd", p, carry))
