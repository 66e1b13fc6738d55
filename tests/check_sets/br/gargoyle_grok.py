"""Restoration notes for cathedral sculpture, decoder in bare JAX (params are nested dicts).

Layer recipe borrowed from a big open mixture model: four norms per layer, grouped keys and
values, attention logits squashed to (-CAP, CAP) by a scaled tanh so that low-precision
training cannot blow up.  CAP is small because the model is.

Causal; `doc` gives the number of the note each token belongs to (several notes are packed
into a row) and a token sees only its own note.  doc == 0 is filler, it sees only filler.
"""
import jax
import jax.numpy as jnp
import numpy as np

CAP = 4.0
NEG = -1e30


def rms_norm(x, g, eps=1e-5):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + eps)
    return (y * g).astype(x.dtype)


def rope(x, pos, base=10000.0):
    """x [B, T, h, d], pos [B, T]; (i, i + d/2) pairs, positions restart with every note."""
    d = x.shape[-1]
    freq = base ** (-jnp.arange(0, d, 2) / d)
    ang = jnp.tile(pos[..., None] * freq, 2)[:, :, None]
    a, b = jnp.split(x, 2, -1)
    return (x * jnp.cos(ang) + jnp.concatenate([-b, a], -1) * jnp.sin(ang)).astype(x.dtype)


def positions(doc):
    """0, 1, 2, ... within every note of a packed row."""
    t = jnp.arange(doc.shape[1])
    new = jnp.concatenate([jnp.ones_like(doc[:, :1], bool), doc[:, 1:] != doc[:, :-1]], 1)
    return t - jax.lax.cummax(jnp.where(new, t, 0), axis=1)


def packed_attention(p, x, doc, heads, kv_heads):
    """x [B, T, C], doc [B, T] int -> [B, T, C]"""
    B, T, C = x.shape
    d = p["q"].shape[1] // heads
    pos = positions(doc)
    q = rope((x @ p["q"]).reshape(B, T, heads, d), pos)
    k = rope((x @ p["k"]).reshape(B, T, kv_heads, d), pos)
    v = (x @ p["v"]).reshape(B, T, kv_heads, d)
    q = q.reshape(B, T, kv_heads, heads // kv_heads, d)

    same = doc[:, :, None] == doc[:, None, :]
    see = same & jnp.tril(jnp.ones((T, T), bool))
    logits = jnp.einsum("btkgd,bskd->bkgts", q, k) * d ** -0.5
    logits = jnp.where(see[:, None, None], logits.astype(jnp.float32), NEG)
    logits = CAP * jnp.tanh(logits / CAP)
    w = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    y = jnp.einsum("bkgts,bskd->btkgd", w, v).reshape(B, T, heads * d)
    return y @ p["o"]


def layer(p, x, doc, heads, kv_heads):
    y = packed_attention(p["attn"], rms_norm(x, p["n1"]), doc, heads, kv_heads)
    x = x + rms_norm(y, p["n2"])
    h = rms_norm(x, p["n3"])
    h = (jax.nn.gelu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    return x + rms_norm(h, p["n4"])


def init_layer(key, C=48, heads=6, kv_heads=2, d=8):
    def mat(i, *s):
        return jax.random.normal(jax.random.fold_in(key, i), s) * s[0] ** -0.5

    return {
        "attn": {
            "q": mat(0, C, heads * d), "k": mat(1, C, kv_heads * d),
            "v": mat(2, C, kv_heads * d), "o": mat(3, heads * d, C),
        },
        "gate": mat(4, C, 2 * C), "up": mat(5, C, 2 * C), "down": mat(6, 2 * C, C),
        **{n: jnp.ones(C) for n in ("n1", "n2", "n3", "n4")},
    }


def pack(notes, length):
    """Greedy packing of token lists into rows; returns (tokens, doc) as int arrays."""
    rows, docs = [[]], [[]]
    for i, n in enumerate(notes, 1):
        if len(rows[-1]) + len(n) > length:
            rows.append([])
            docs.append([])
        rows[-1] += n
        docs[-1] += [i] * len(n)
    pad = lambda r: np.array([x + [0] * (length - len(x)) for x in r], np.int32)
    return pad(rows), pad(docs)


if __name__ == "__main__":
    tok, doc = pack([[5, 6, 7], [8, 9], [4, 4, 4, 4]], 8)
    emb = jax.random.normal(jax.random.PRNGKey(2), (16, 48))
    print(jax.jit(layer, static_argnums=(3, 4))(init_layer(jax.random.PRNGKey(0)), emb[tok], doc, 6, 2).shape)
