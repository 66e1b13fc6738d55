"""AIS track encoder for harbour pilotage (JAX, plain pytrees).

Vessels report every few seconds; a track is a causal sequence. Keys and values
have fewer heads than the queries (grouped): query head h reads kv head
h // (H // KV).
"""
import dataclasses
import math

import jax
import jax.numpy as jnp

KNOT = 0.514444          # m/s


@dataclasses.dataclass(frozen=True)
class TrackSpec:
    dim: int = 48
    heads: int = 6
    kv_heads: int = 2
    inputs: int = 7

    @property
    def d(self):
        return self.dim // self.heads


def init_track(spec: TrackSpec, rng):
    r = jax.random.split(rng, 5)
    lin = lambda k, a, b: jax.random.normal(k, (a, b)) / math.sqrt(a)
    return {
        "inp": lin(r[0], spec.inputs, spec.dim),
        "q": lin(r[1], spec.dim, spec.heads * spec.d),
        "k": lin(r[2], spec.dim, spec.kv_heads * spec.d),
        "v": lin(r[3], spec.dim, spec.kv_heads * spec.d),
        "o": lin(r[4], spec.heads * spec.d, spec.dim),
    }


def to_heads(x, n):
    """[B, T, n*d] -> [B, n, T, d]"""
    b, t, nd = x.shape
    return x.reshape(b, t, n, nd // n).transpose(0, 2, 1, 3)


def share_kv(x, groups):
    """[B, KV, T, d] -> [B, KV*groups, T, d]"""
    b, kv, t, d = x.shape
    return jnp.repeat(x, groups, axis=2).reshape(b, kv * groups, t, d)


def track_attention(params, spec: TrackSpec, x, lost=None):
    """x [B, T, dim]; lost [B, T] bool, True = the report was lost (never attended).

    Causal: report t reads reports up to and including t.
    """
    b, t, _ = x.shape
    g = spec.heads // spec.kv_heads
    q = to_heads(x @ params["q"], spec.heads)
    k = share_kv(to_heads(x @ params["k"], spec.kv_heads), g)
    v = share_kv(to_heads(x @ params["v"], spec.kv_heads), g)

    s = jnp.einsum("bhid,bhjd->bhij", q, k, preferred_element_type=jnp.float32) / math.sqrt(spec.d)
    hidden = jnp.triu(jnp.ones((t, t), bool), k=1)[None, None]
    if lost is not None:
        hidden = hidden | lost[:, None, None, :]
    s = jnp.where(hidden, -1e30, s)
    p = jax.nn.softmax(s, axis=-1).astype(x.dtype)
    y = jnp.einsum("bhij,bhjd->bihd", p, v).reshape(b, t, -1)
    return y @ params["o"]


def features(lat, lon, sog_knots, cog_deg, heading_deg, dt, draught, origin):
    """raw AIS columns [B, T] -> [B, T, 7]; origin = (lat, lon) of the pilot station"""
    north = (lat - origin[0]) * 111_132.0
    east = (lon - origin[1]) * 111_320.0 * jnp.cos(jnp.deg2rad(origin[0]))
    drift = jnp.deg2rad(cog_deg - heading_deg)
    cols = [north / 1e4, east / 1e4, sog_knots * KNOT / 10, jnp.cos(drift), jnp.sin(drift), dt / 10, draught / 10]
    return jnp.stack(cols, axis=-1)


def encode(params, spec, feats, lost=None):
    x = jnp.tanh(feats @ params["inp"])
    return x + track_attention(params, spec, x, lost)


def under_keel(depth, draught, squat_coeff, sog_knots):
    """clearance in metres with Barrass squat"""
    return depth - draught - squat_coeff * sog_knots ** 2 / 100


if __name__ == "__main__":
    spec = TrackSpec()
    p = init_track(spec, jax.random.PRNGKey(0))
    print(jax.jit(encode, static_argnums=1)(p, spec, jnp.ones((2, 9, spec.inputs))).shape)
