"""Linear-time attention for long DNA sequences.

phi(x) = elu(x) + 1 (Katharopoulos et al. 2020). For one head

    out_i = phi(q_i) . sum_{j<=i} phi(k_j) v_j^T  /  phi(q_i) . sum_{j<=i} phi(k_j)

in the causal direction; the bidirectional model sums over all j. There is no
exponential softmax and no 1/sqrt(d) in this family, the kernel takes their place.
"""
import jax
import jax.numpy as jnp
from jax import lax

BASES = {b: i for i, b in enumerate("NACGT")}      # N (0) is unknown / padding


def encode(seq, length):
    ids = [BASES.get(b, 0) for b in seq.upper()[:length]]
    return jnp.array(ids + [0] * (length - len(ids)))


def phi(x):
    return jax.nn.elu(x) + 1.0


def linear_attention(q, k, v, known, causal, chunk=64, eps=1e-6):
    """q, k [L, H, D]; v [L, H, E]; known [L] True for real bases.

    Unknown bases contribute nothing, neither to numerator nor to denominator.
    The causal case goes chunk by chunk: past chunks through the running state,
    the own chunk through a small [chunk, chunk] lower triangle.
    """
    L, H, D = q.shape
    E = v.shape[-1]
    q = phi(q)
    k = phi(k) * known[:, None, None]
    if not causal:
        state = jnp.einsum("lhd,lhe->hde", k, v)
        norm = k.sum(0)
        return jnp.einsum("lhd,hde->lhe", q, state) / (jnp.einsum("lhd,hd->lh", q, norm)[..., None] + eps)

    fill = -L % chunk
    pad = lambda t: jnp.pad(t, ((0, fill), (0, 0), (0, 0))).reshape(-1, chunk, H, t.shape[-1])
    low = jnp.tril(jnp.ones((chunk, chunk)))

    def walk(carry, piece):
        state, norm = carry
        qc, kc, vc = piece
        a = jnp.einsum("ihd,jhd->hij", qc, kc) * low
        top = jnp.einsum("hij,jhe->ihe", a, vc) + jnp.einsum("ihd,hde->ihe", qc, state)
        bottom = a.sum(-1).T + jnp.einsum("ihd,hd->ih", qc, norm)
        state = state + jnp.einsum("jhd,jhe->hde", kc, vc)
        norm = norm + kc.sum(0)
        return (state, norm), top / (bottom[..., None] + eps)

    start = (jnp.zeros((H, D, E)), jnp.zeros((H, D)))
    _, out = lax.scan(walk, start, (pad(q), pad(k), pad(v)))
    return out.reshape(-1, H, E)[:L]


def layer_norm(x, p):
    m = x.mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def block(p, x, known, heads, causal):
    L, C = x.shape
    h = layer_norm(x, p["ln1"])
    cut = lambda w: (h @ w).reshape(L, heads, -1)
    a = linear_attention(cut(p["wq"]), cut(p["wk"]), cut(p["wv"]), known, causal)
    x = x + a.reshape(L, C) @ p["wo"]
    h = layer_norm(x, p["ln2"])
    return x + jax.nn.gelu(h @ p["w1"]) @ p["w2"]


def genome_model(params, ids, heads=4, causal=False):
    """ids [L] -> logits [L, 5]."""
    known = ids != BASES["N"]
    x = params["embed"][ids]
    for p in params["blocks"]:
        x = block(p, x, known, heads, causal)
    return layer_norm(x, params["ln_f"]) @ params["head"]


batched_model = jax.vmap(genome_model, in_axes=(None, 0, None, None))


def init_params(rng, width=64, depth=4):
    ln = lambda: {"scale": jnp.ones(width), "shift": jnp.zeros(width)}
    def mat(key, a, b):
        return jax.random.normal(key, (a, b)) / jnp.sqrt(a)
    rng, e, h = jax.random.split(rng, 3)
    blocks = []
    for _ in range(depth):
        rng, *ks = jax.random.split(rng, 7)
        blocks.append({"wq": mat(ks[0], width, width), "wk": mat(ks[1], width, width),
                       "wv": mat(ks[2], width, width), "wo": mat(ks[3], width, width),
                       "w1": mat(ks[4], width, 4 * width), "w2": mat(ks[5], 4 * width, width),
                       "ln1": ln(), "ln2": ln()})
    return {"embed": mat(e, 5, width), "blocks": blocks, "ln_f": ln(), "head": mat(h, width, 5)}


if __name__ == "__main__":
    p = init_params(jax.random.PRNGKey(0))
    print(genome_model(p, encode("ACGTTNACG" * 20, 200), causal=True).shape)
