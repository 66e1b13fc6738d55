# MSA row attention with pair bias, AlphaFold 2 supplement, algorithm 7. jax.numpy, params in dicts.
import jax
import jax.numpy as jnp

BIG = 1e9


def glorot(rng, shape, fan):
    return jax.random.normal(rng, shape) * fan ** -0.5


def init_params(rng, c_m=32, c_z=16, heads=4, c=8):
    r = jax.random.split(rng, 8)
    return {
        "ln_m": {"scale": jnp.ones(c_m), "offset": jnp.zeros(c_m)},
        "ln_z": {"scale": jnp.ones(c_z), "offset": jnp.zeros(c_z)},
        "pair_w": glorot(r[0], (c_z, heads), c_z),
        "q_w": glorot(r[1], (c_m, heads, c), c_m),
        "k_w": glorot(r[2], (c_m, heads, c), c_m),
        "v_w": glorot(r[3], (c_m, heads, c), c_m),
        "gate_w": glorot(r[4], (c_m, heads, c), c_m),
        "gate_b": jnp.ones((heads, c)),
        "o_w": glorot(r[5], (heads, c, c_m), heads * c),
        "o_b": jnp.zeros(c_m),
    }


def layer_norm(p, x):
    mu = x.mean(-1, keepdims=True)
    var = jnp.square(x - mu).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * p["scale"] + p["offset"]


def row_attention(p, m, q_bias):
    """One MSA row: m (R, c_m), q_bias (H, R, R) or broadcastable, already with the mask."""
    q = jnp.einsum("ra,ahc->rhc", m, p["q_w"]) * p["q_w"].shape[-1] ** -0.5
    k = jnp.einsum("ra,ahc->rhc", m, p["k_w"])
    v = jnp.einsum("ra,ahc->rhc", m, p["v_w"])
    logits = jnp.einsum("qhc,khc->hqk", q, k) + q_bias
    weights = jax.nn.softmax(logits)
    avg = jnp.einsum("hqk,khc->qhc", weights, v)
    gate = jax.nn.sigmoid(jnp.einsum("ra,ahc->rhc", m, p["gate_w"]) + p["gate_b"])
    return jnp.einsum("qhc,hco->qo", avg * gate, p["o_w"]) + p["o_b"]


def msa_row_attention_with_pair_bias(params, msa_act, msa_mask, pair_act):
    """Gated self-attention over the residues, separately in each sequence of the alignment.

    msa_act (S, R, c_m), msa_mask (S, R) 1 = residue, 0 = missing; pair_act (R, R, c_z).
    The bias b[h, i, j] comes from pair_act[i, j] and is the same for all sequences.
    """
    m = layer_norm(params["ln_m"], msa_act)
    z = layer_norm(params["ln_z"], pair_act)
    pair_bias = jnp.einsum("qkc,ch->hqk", z, params["pair_w"])
    mask_bias = BIG * (msa_mask - 1.0)                       # (S, R)

    def one_row(args):
        row, mb = args
        return row_attention(params, row, pair_bias + mb[None, None, :])

    # lax.map: one row at a time keeps the (S, H, R, R) tensor out of memory
    return jax.lax.map(one_row, (m, mask_bias))


def outer_product_mean(a_w, b_w, o_w, msa, mask):
    a = jnp.einsum("src,cd->srd", msa, a_w) * mask[..., None]
    b = jnp.einsum("src,cd->srd", msa, b_w) * mask[..., None]
    norm = jnp.einsum("si,sj->ij", mask, mask)
    o = jnp.einsum("sid,sje,deo->ijo", a, b, o_w)
    return o / (norm[..., None] + 1e-3)


def apply_dropout_rowwise(rng, x, rate):
    keep = jax.random.bernoulli(rng, 1 - rate, (1,) + x.shape[1:])
    return jnp.where(keep, x / (1 - rate), 0.0)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    p = init_params(key)
    msa = jax.random.normal(key, (5, 11, 32))
    pair = jax.random.normal(key, (11, 11, 16))
    print(jax.jit(msa_row_attention_with_pair_bias)(p, msa, jnp.ones((5, 11)), pair).shape)
