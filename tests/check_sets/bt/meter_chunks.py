"""Smart-meter disaggregation over a month of 15-minute readings (N = 2976).

Causal linear attention evaluated chunk by chunk: inside a chunk the small masked product is
formed, everything earlier arrives through the carried state. Reading t sees 0..t, and the
weights of a reading over all that it sees sum to one:

    y_t = sum_{s<=t} f(q_t).f(k_s) v_s  /  sum_{s<=t} f(q_t).f(k_s)
"""
from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax


@dataclasses.dataclass(frozen=True)
class MeterSpec:
    features: int = 6
    heads: int = 2
    dim: int = 8
    chunk: int = 4
    appliances: int = 5


def feature_map(x):
    return jax.nn.elu(x) + 1.0


def split_chunks(x, c):
    """[H, N, d] -> [N/c, H, c, d]"""
    h, n, d = x.shape
    return x.reshape(h, n // c, c, d).swapaxes(0, 1)


def join_chunks(x):
    m, h, c, d = x.shape
    return x.swapaxes(0, 1).reshape(h, m * c, d)


def chunked_linear_attention(q, k, v, chunk):
    """q, k [H, N, d], v [H, N, e] (N divisible by `chunk`) -> [H, N, e]"""
    q, k = feature_map(q), feature_map(k)
    tri = jnp.tril(jnp.ones((chunk, chunk), q.dtype))

    def step(state, qkv):
        S, z = state                                        # [H, d, e], [H, d]
        qc, kc, vc = qkv
        local = jnp.einsum("hid,hjd->hij", qc, kc) * tri
        num = jnp.einsum("hij,hje->hie", local, vc) + jnp.einsum("hid,hde->hie", qc, S)
        den = local.sum(-1) + jnp.einsum("hid,hd->hi", qc, z)
        S = S + jnp.einsum("hjd,hje->hde", kc, vc)
        z = kc.sum(1)
        return (S, z), num / den[..., None]

    h, _, d = q.shape
    start = (jnp.zeros((h, d, v.shape[-1]), q.dtype), jnp.zeros((h, d), q.dtype))
    _, y = lax.scan(step, start, tuple(split_chunks(t, chunk) for t in (q, k, v)))
    return join_chunks(y)


def init(key, spec: MeterSpec = MeterSpec()):
    ks = jax.random.split(key, 5)
    inner = spec.heads * spec.dim
    mk = lambda k, a, b: jax.random.normal(k, (a, b)) * a ** -0.5
    return {
        "q": mk(ks[0], spec.features, inner),
        "k": mk(ks[1], spec.features, inner),
        "v": mk(ks[2], spec.features, inner),
        "out": mk(ks[3], inner, spec.appliances),
        "skip": mk(ks[4], spec.features, spec.appliances),
    }


def disaggregate(params, x, spec: MeterSpec = MeterSpec()):
    """x [N, features], first column total kW -> kW per appliance [N, appliances]."""
    n = x.shape[0]
    pad = -n % spec.chunk
    xp = jnp.pad(x, ((0, pad), (0, 0)))
    q, k, v = ((xp @ params[m]).reshape(n + pad, spec.heads, spec.dim).swapaxes(0, 1) for m in "qkv")
    y = chunked_linear_attention(q, k, v, spec.chunk)
    y = y.swapaxes(0, 1).reshape(n + pad, -1)[:n]
    share = jax.nn.softmax(y @ params["out"] + x @ params["skip"], -1)
    return share * x[:, :1]


def day_profile(kw, per_day=96):
    return kw[: len(kw) // per_day * per_day].reshape(-1, per_day, kw.shape[-1]).mean(0)


if __name__ == "__main__":
    key = jax.random.PRNGKey(8)
    kw = disaggregate(init(key), jax.random.uniform(key, (193, 6)))
    print(kw.shape, day_profile(kw).sum(0))
