"""karst_passages: connecting cave survey stations.

x[station] attends to y[station] of the neighbouring cave; scores are scaled with
the root of the head's width and soft-capped, cap * tanh(s / cap), so that one
dripstone doesn't take it all.  Flooded stations are never used.
"""
from functools import partial
import jax
import jax.numpy as jnp

CAP = 8.0


def Params(key, C=12, H=3, D=4):
    kq, kk, kv, ko = jax.random.split(key, 4)
    g = lambda k, s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return dict(q=g(kq, (C, H, D)), k=g(kk, (C, H, D)), v=g(kv, (C, H, D)), o=g(ko, (H * D, C)).reshape(H, D, C))


def softcap(s, cap):
    return cap * jnp.tanh(s / cap)


def _one_cave(p, x, y, flooded, cap):
    q = jnp.einsum("ic,chd->hid", x, p["q"])
    k = jnp.einsum("jc,chd->hjd", y, p["k"])
    v = jnp.einsum("jc,chd->hjd", y, p["v"])
    s = jnp.einsum("hid,hjd->hij", q, k) / jnp.sqrt(q.shape[0])
    s = jnp.where(flooded[None, None, :], -jnp.inf, s)
    s = softcap(s, cap)
    return jnp.einsum("hij,hjd,hdc->ic", jax.nn.softmax(s, -1), v, p["o"])


@partial(jax.jit, static_argnames="cap")
def survey_attention(p, x, y, flooded, cap=CAP):
    """x (B, I, C), y (B, J, C), flooded (B, J) bool -> (B, I, C)"""
    return jax.vmap(_one_cave, in_axes=(None, 0, 0, 0, None))(p, x, y, flooded, cap)


def polar_to_xyz(length, azimuth, inclination):
    """compass-and-tape shots (degrees) -> offsets in metres"""
    a, i = jnp.deg2rad(azimuth), jnp.deg2rad(inclination)
    flat = length * jnp.cos(i)
    return jnp.stack([flat * jnp.sin(a), flat * jnp.cos(a), length * jnp.sin(i)], -1)


def stations(shots):
    return jnp.cumsum(polar_to_xyz(*jnp.moveaxis(shots, -1, 0)), axis=-2)


def featurise(xyz, C=12):
    freq = 2.0 ** -jnp.arange(C // 6)
    z = xyz[..., None] * freq
    return jnp.concatenate([jnp.sin(z), jnp.cos(z)], -1).reshape(*xyz.shape[:-1], -1)


def passage_score(p, shots_a, shots_b, flooded):
    a, b = featurise(stations(shots_a)), featurise(stations(shots_b))
    return jnp.sum(a * survey_attention(p, a, b, flooded), -1)


if __name__ == "__main__":
    k = jax.random.key(9)
    sh = jax.random.uniform(k, (2, 5, 3)) * jnp.array([12.0, 360.0, 30.0])
    print(passage_score(Params(k), sh, sh[:, :4], jnp.zeros((2, 4), bool)))
