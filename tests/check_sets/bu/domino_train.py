"""domino_train: plays Mexican Train.  Pure functions, pytrees, no framework.

A tile sees itself and all tiles laid before it.  `attend_tiles` takes the tiles
laid since the last call and the cache of what was laid earlier.
"""
import jax
import jax.numpy as jnp

DOUBLE = 9
TILES = [(a, b) for a in range(DOUBLE + 1) for b in range(a, DOUBLE + 1)]


def tile_id(a, b):
    return TILES.index((min(a, b), max(a, b)))


def pips():
    return jnp.array([[a, b, a + b, a == b] for a, b in TILES], jnp.float32)


def init(key, dim=16, heads=2):
    ks = jax.random.split(key, 5)
    mats = {n: jax.random.normal(k, (dim, dim)) * dim ** -0.5 for n, k in zip("qkvo", ks)}
    return {**mats, "embed": jax.random.normal(ks[4], (4, dim)) * 0.3, "heads": heads}


def empty(batch, p):
    d = p["q"].shape[0]
    z = jnp.zeros((batch, 0, p["heads"], d // p["heads"]))
    return {"k": z, "v": z}


def into_heads(x, heads):
    return x.reshape(*x.shape[:-1], heads, -1)


def may_see(new, total):
    return jnp.tril(jnp.ones((new, total), dtype=bool))


def attend_tiles(p, x, cache):
    """x (batch, new, dim), cache of earlier tiles -> (batch, new, dim), cache"""
    h = p["heads"]
    q, k, v = (into_heads(x @ p[n], h) for n in "qkv")
    k = jnp.concatenate([cache["k"], k], axis=1)
    v = jnp.concatenate([cache["v"], v], axis=1)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    s = jnp.where(may_see(x.shape[1], k.shape[1]), s, -jnp.inf)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, axis=-1), v)
    return y.reshape(x.shape) @ p["o"], {"k": k, "v": v}


def next_tile(p, laid, cache, hand):
    """laid (batch, new) tile ids, hand (batch, 55) bool -> tile ids (batch,), cache"""
    table = pips() @ p["embed"]
    x = table[laid]
    y, cache = attend_tiles(p, x, cache)
    logits = (x + y)[:, -1] @ table.T
    return jnp.where(hand, logits, -jnp.inf).argmax(-1), cache


def main():
    p = init(jax.random.key(1))
    hand = jnp.ones((1, len(TILES)), bool)
    cache = empty(1, p)
    t, cache = next_tile(p, jnp.array([[tile_id(9, 9)]]), cache, hand)
    t, cache = next_tile(p, t[:, None], cache, hand)
    print(TILES[int(t[0])])


if __name__ == "__main__":
    main()
