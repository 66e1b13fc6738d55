"""Move-by-move decoder for chess games in pure JAX.

A game is a list of move embeddings.  ``causal_attention`` serves both training
(k, v as long as q) and play, where q holds the newest moves only and k, v the whole
game so far including them: query t of Lq stands at position Lk - Lq + t and
sees every move up to and including its own.
"""
import jax
import jax.numpy as jnp


def init_params(rng, dim, heads):
    names = ("q", "k", "v", "o")
    keys = jax.random.split(rng, len(names))
    p = {n: jax.random.normal(k, (dim, dim)) * dim ** -0.5 for n, k in zip(names, keys)}
    return p


def split_heads(x, heads):
    l, d = x.shape
    return x.reshape(l, heads, d // heads).swapaxes(0, 1)


def causal_attention(q, k, v):
    """q [H, Lq, d], k and v [H, Lk, d], Lq <= Lk"""
    lq, lk = q.shape[1], k.shape[1]
    logits = jnp.einsum("hqd,hkd->hqk", q, k) / jnp.sqrt(q.shape[-1])
    visible = jnp.tril(jnp.ones((lq, lk), dtype=bool))
    logits = jnp.where(visible, logits, -jnp.inf)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(logits, axis=-1), v)


def layer(params, x, heads, cache=None):
    """x [L, D] new moves; cache is None or a (k, v) pair.  Returns y, new cache."""
    q = split_heads(x @ params["q"], heads)
    k = split_heads(x @ params["k"], heads)
    v = split_heads(x @ params["v"], heads)
    if cache is not None:
        k = jnp.concatenate([cache[0], k], axis=1)
        v = jnp.concatenate([cache[1], v], axis=1)
    o = causal_attention(q, k, v)
    o = o.swapaxes(0, 1).reshape(x.shape)
    return x + o @ params["o"], (k, v)


def policy_logits(params, moves, emb, heads=4):
    y, _ = layer(params, emb[moves], heads)
    return y @ emb.T


def play(params, emb, opening, n_moves, heads=4):
    y, cache = layer(params, emb[jnp.asarray(opening)], heads)
    game = list(opening)
    for _ in range(n_moves):
        move = int(jnp.argmax(y[-1] @ emb.T))
        game.append(move)
        y, cache = layer(params, emb[jnp.asarray([move])], heads, cache)
    return game


if __name__ == "__main__":
    r = jax.random.PRNGKey(0)
    params = init_params(r, 32, 4)
    print(play(params, jax.random.normal(r, (64, 32)), [3, 5, 8], 4))
