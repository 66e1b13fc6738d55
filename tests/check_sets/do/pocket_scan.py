"""Ligand -> pocket cross attention with a running softmax (JAX).

Pockets can hold thousands of atoms, so the (ligand x pocket) matrix is never
built: we scan over blocks of the pocket and keep, per query and head, the
running maximum, the running normaliser and the running weighted sum.

lig     (L, H, D)   queries
poc_k   (P, H, D), poc_v (P, H, E)   P a multiple of block
valid   (P,) bool   True = real pocket atom, at least one
out     (L, H, E)   equal to softmax(q k^T / sqrt(D)) v over the real atoms
"""
import jax
import jax.numpy as jnp

NEG = -1e30


def pocket_attention(lig, poc_k, poc_v, valid, block=16):
    L, H, D = lig.shape
    E = poc_v.shape[-1]
    nb = poc_k.shape[0] // block
    q = lig * (D ** -0.5)

    def body(carry, blk):
        m, z, acc = carry
        kb, vb, ok = blk
        s = jnp.einsum("lhd,phd->lhp", q, kb)
        s = jnp.where(ok, s, NEG)
        m_new = jnp.maximum(m, s.max(-1))
        w = jnp.where(ok, jnp.exp(s - m_new[..., None]), 0.0)
        shrink = jnp.exp(m - m_new)
        z = z * shrink + w.sum(-1)
        acc = acc * shrink[..., None] + jnp.einsum("lhp,phe->lhe", w, vb)
        return (m_new, z, acc), None

    start = (jnp.full((L, H), NEG), jnp.zeros((L, H)), jnp.zeros((L, H, E)))
    blocks = (poc_k.reshape(nb, block, H, D), poc_v.reshape(nb, block, H, E), valid.reshape(nb, block))
    (_, z, acc), _ = jax.lax.scan(body, start, blocks)
    return acc / z[..., None]


def binding_score(params, lig_x, poc_x, valid, heads=2):
    """lig_x (L, F), poc_x (P, F); params: wq, wk, wv (F, heads*D), w (heads*D,)"""
    cut = lambda t: t.reshape(t.shape[0], heads, -1)
    y = pocket_attention(cut(lig_x @ params["wq"]), cut(poc_x @ params["wk"]), cut(poc_x @ params["wv"]), valid)
    return (y.reshape(y.shape[0], -1) @ params["w"]).mean()
