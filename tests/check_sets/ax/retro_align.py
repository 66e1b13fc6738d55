"""Retrosynthesis: which product atoms does each precursor token come from?

The cross attention of the trained model is used as a soft atom mapping, so next to the
context it gives back ``alignment`` [B, H, T, S]: for every precursor token a distribution over
the product tokens (rows sum to one, product padding gets zero).

params of one layer: {"q": [W, H, D], "k": [W, H, D], "v": [W, H, D], "o": [H, D, W]}
"""
import jax
import jax.numpy as jnp
import numpy as np

PAD, BOS, EOS = 0, 1, 2


def init_cross(rng, width, heads):
    d = width // heads
    ks = jax.random.split(rng, 4)
    p = {n: jax.random.normal(k, (width, heads, d)) / np.sqrt(width) for n, k in zip("qkv", ks)}
    p["o"] = jax.random.normal(ks[3], (heads, d, width)) / np.sqrt(width)
    return p


def product_attention(params, x, product, lengths):
    """
    x        [B, T, W]  precursor states (queries)
    product  [B, S, W]  encoded product SMILES, right padded
    lengths  [B]        number of product tokens of every sample (>= 1)
    """
    q = jnp.einsum("btw,whd->bhtd", x, params["q"])
    k = jnp.einsum("bsw,whd->bhsd", product, params["k"])
    v = jnp.einsum("bsw,whd->bhsd", product, params["v"])
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) / jnp.sqrt(q.shape[-1])
    for b, n in enumerate(lengths):
        scores.at[b, :, :, int(n):].set(-jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1)
    context = jnp.einsum("bhts,bhsd->bhtd", weights, v)
    y = jnp.einsum("bhtd,hdw->btw", context, params["o"])
    return y, scores


def layer_norm(x, p):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(var + 1e-5) * p["scale"] + p["bias"]


def aligner_init(rng, vocab, width=32, heads=4, max_len=128):
    a, b, c, d, e = jax.random.split(rng, 5)
    return {"tok": jax.random.normal(a, (vocab, width)) * 0.1,
            "pos": jax.random.normal(b, (max_len, width)) * 0.1,
            "cross": init_cross(c, width, heads),
            "ln": {"scale": jnp.ones(width), "bias": jnp.zeros(width)},
            "mix": jax.random.normal(d, (3 * width, width)) / np.sqrt(3 * width),
            "head": jax.random.normal(e, (width, vocab)) / np.sqrt(width)}


def conv3(p, x):
    """cheap encoder: every token with its two neighbours"""
    left = jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    right = jnp.pad(x, ((0, 0), (0, 1), (0, 0)))[:, 1:]
    return jax.nn.gelu(jnp.concatenate([left, x, right], -1) @ p)


def aligner(params, precursor, product):
    """token ids [B, T], [B, S] -> logits [B, T, V], alignment [B, H, T, S]"""
    lengths = np.maximum(np.asarray((product != PAD).sum(-1)), 1)
    emb = lambda ids: params["tok"][ids] + params["pos"][: ids.shape[1]]
    memory = conv3(params["mix"], emb(product))
    x = emb(precursor)
    y, alignment = product_attention(params["cross"], layer_norm(x, params["ln"]), memory, lengths)
    return layer_norm(x + y, params["ln"]) @ params["head"], alignment


def atom_map(alignment, precursor_atoms, product_atoms):
    """Mean over heads, best product atom for each precursor atom.

    precursor_atoms, product_atoms: token positions that are atoms (not bonds, rings, brackets)
    -> list of (precursor position, product position, confidence)
    """
    a = np.asarray(alignment).mean(0)
    out = []
    for t in precursor_atoms:
        row = a[t, product_atoms]
        j = int(row.argmax())
        out.append((t, product_atoms[j], float(row[j])))
    return out
