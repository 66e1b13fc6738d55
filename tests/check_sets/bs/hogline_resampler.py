"""hogline: value network for curling ends, Flax linen.

Up to sixteen stones lie on the ice in any order.  A Perceiver-style resampler turns them into a
fixed number of latents; as in Flamingo the latents attend to the stones AND to themselves, so an
empty sheet is no problem.  Dimensions of q/k may differ from those of v.
"""
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Sheet:
    """Metres, origin at the button."""
    hog: float = 6.40
    house: float = 1.829
    half_width: float = 2.375


def stone_features(xy, mine, sheet=Sheet()):
    r = jnp.sqrt((xy ** 2).sum(-1, keepdims=True) + 1e-9)
    return jnp.concatenate(
        [xy / sheet.hog, r / sheet.house, (r < sheet.house).astype(xy.dtype), mine[..., None].astype(xy.dtype)], -1)


class ResamplerAttention(nn.Module):
    heads: int = 3
    qk_dim: int = 4            # per head
    v_dim: int = 6             # per head
    qk_norm: bool = True

    @nn.compact
    def __call__(self, latents, stones, in_play):
        """latents [B,M,C], stones [B,N,C], in_play [B,N] bool (True: the stone counts)."""
        B, M, C = latents.shape
        both = jnp.concatenate([stones, latents], axis=1)
        keep = jnp.concatenate([in_play, jnp.ones((B, M), bool)], axis=1)
        q = nn.DenseGeneral((self.heads, self.qk_dim), use_bias=False, name="q")(latents)
        k = nn.DenseGeneral((self.heads, self.qk_dim), use_bias=False, name="k")(both)
        v = nn.DenseGeneral((self.heads, self.v_dim), use_bias=False, name="v")(both)
        if self.qk_norm:
            # cosine scores with one learned temperature per head, hence no 1/sqrt(d)
            q = q / (jnp.linalg.norm(q, axis=-1, keepdims=True) + 1e-6)
            k = k / (jnp.linalg.norm(k, axis=-1, keepdims=True) + 1e-6)
            t = self.param("temperature", nn.initializers.constant(1.0), (self.heads,))
            logits = jnp.einsum("bmhd,bnhd->bhmn", q, k) * jnp.exp(t)[:, None, None]
        else:
            logits = jnp.einsum("bmhd,bnhd->bhmn", q, k) / jnp.sqrt(self.qk_dim)
        logits = jnp.where(keep[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
        w = jax.nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhmn,bnhd->bmhd", w, v)
        return nn.DenseGeneral(C, axis=(-2, -1), use_bias=False, name="o")(y)


class EndValue(nn.Module):
    width: int = 24
    latents: int = 4
    depth: int = 2

    @nn.compact
    def __call__(self, xy, mine, in_play, hammer):
        x = nn.Dense(self.width)(stone_features(xy, mine))
        z = self.param("latents", nn.initializers.normal(0.5), (self.latents, self.width))
        z = jnp.broadcast_to(z, (xy.shape[0], *z.shape))
        z = z + nn.Embed(2, self.width)(hammer)[:, None]
        for i in range(self.depth):
            z = z + ResamplerAttention(name=f"att{i}")(nn.LayerNorm()(z), nn.LayerNorm()(x), in_play)
            z = z + nn.Dense(self.width)(nn.gelu(nn.Dense(2 * self.width)(nn.LayerNorm()(z))))
        return nn.Dense(17)(z.mean(1))          # -8 .. +8 points


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    xy = jax.random.uniform(key, (2, 16, 2), minval=-2.0, maxval=2.0)
    mine = jnp.arange(16) % 2 == 0
    mine = jnp.broadcast_to(mine, (2, 16))
    in_play = jnp.arange(16)[None] < jnp.array([[5], [0]])
    net = EndValue()
    p = net.init(key, xy, mine, in_play, jnp.array([0, 1]))
    print(net.apply(p, xy, mine, in_play, jnp.array([0, 1])).shape)
