"""Speculative decoding, verification side (JAX).

The draft model proposes G tokens; the target model runs once over the last accepted
token plus the G proposals, on top of its cache, and we accept a prefix.
"""
import math

import jax
import jax.numpy as jnp
from jax import random


def verify_attention(q, k_cache, v_cache, k_new, v_new):
    """
    q        [B, N, H, D]    queries of the N = G + 1 candidate tokens
    k_cache  [B, S, K, D]    accepted context (no padding)
    k_new    [B, N, K, D]    keys of the candidate tokens, v likewise

    Candidate n attends to the whole context and to the candidates 0..n.
    Grouped-query: the H // K neighbouring query heads share one kv head, i.e.
    query head h belongs to kv head h // (H // K).
    """
    k = jnp.concatenate([k_cache, k_new], axis=1)
    v = jnp.concatenate([v_cache, v_new], axis=1)
    H, K = q.shape[2], k.shape[2]
    if H != K:
        k = jnp.tile(k, (1, 1, H // K, 1))
        v = jnp.tile(v, (1, 1, H // K, 1))
    logits = jnp.einsum('bnhd,bshd->bhns', q, k).astype(jnp.float32)
    logits = logits / math.sqrt(q.shape[-1])
    allowed = jnp.tril(jnp.ones(logits.shape[-2:], dtype=bool))
    logits = jnp.where(allowed, logits, -jnp.inf)
    probs = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
    return jnp.einsum('bhns,bshd->bnhd', probs, v)


def accept(p_target, p_draft, tokens, key):
    """Leviathan et al. rejection rule.

    p_target [N, V], p_draft [G, V], tokens [G] -> (number accepted, next token)
    """
    G = tokens.shape[0]
    k_u, k_s = random.split(key)
    idx = jnp.arange(G)
    ratio = p_target[idx, tokens] / jnp.maximum(p_draft[idx, tokens], 1e-20)
    ok = random.uniform(k_u, (G,)) < ratio
    n = jnp.where(ok.all(), G, jnp.argmin(ok))
    padded = jnp.concatenate([p_draft, jnp.zeros((1, p_draft.shape[1]))])
    resid = jnp.maximum(p_target[n] - padded[n], 0.0)
    resid = jnp.where(resid.sum() > 0, resid, p_target[n])
    return n, random.categorical(k_s, jnp.log(resid + 1e-20))


class TargetModel:
    """One layer stands for all of them."""

    def __init__(self, key, vocab=40, dim=32, heads=4, kv_heads=2):
        a, b, c, d, e = random.split(key, 5)
        hd = dim // heads
        self.emb = random.normal(a, (vocab, dim))
        self.wq = random.normal(b, (dim, heads, hd)) * dim ** -0.5
        self.wk = random.normal(c, (dim, kv_heads, hd)) * dim ** -0.5
        self.wv = random.normal(d, (dim, kv_heads, hd)) * dim ** -0.5
        self.wo = random.normal(e, (heads, hd, dim)) * dim ** -0.5

    def kv(self, ids):
        x = self.emb[ids]
        return jnp.einsum('bnd,dhk->bnhk', x, self.wk), jnp.einsum('bnd,dhk->bnhk', x, self.wv)

    def probs(self, ids, cache):
        x = self.emb[ids]
        q = jnp.einsum('bnd,dhk->bnhk', x, self.wq)
        new = self.kv(ids)
        y = verify_attention(q, *cache, *new)
        x = x + jnp.einsum('bnhk,hkd->bnd', y, self.wo)
        return jax.nn.softmax(x @ self.emb.T), new


def round_trip(model, context, draft_tokens, p_draft, key):
    cache = model.kv(context[:, :-1])
    cand = jnp.concatenate([context[:, -1:], draft_tokens[None]], axis=1)
    p, new = model.probs(cand, cache)
    n, nxt = accept(p[0], p_draft, draft_tokens, key)
    kept = jnp.concatenate([context, draft_tokens[None, : int(n)], nxt[None, None]], axis=1)
    return kept, tuple(jnp.concatenate([c, t[:, : int(n) + 1]], 1) for c, t in zip(cache, new))


if __name__ == '__main__':
    key = random.PRNGKey(0)
    m = TargetModel(key)
    ctx = random.randint(key, (1, 12), 0, 40)
    draft = jnp.array([3, 9, 27])
    print(round_trip(m, ctx, draft, jnp.full((3, 40), 1 / 40), key)[0])
