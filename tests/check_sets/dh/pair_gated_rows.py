"""Row update for multiple sequence alignments, in plain jax.numpy."""
import jax
import jax.numpy as jnp


def row_update(params, msa, pair, res_mask):
    """
    msa      (S, R, c)      sequences x residues
    pair     (R, R, p)      pair representation
    res_mask (R,) bool      at least one True
    params   wq, wk, wv, wg (c, H, d), bg (H, d), wb (p, H), wo (H, d, c)
    returns  (S, R, c), the update to add to msa
    """
    d = params["wq"].shape[-1]
    q = jnp.einsum("src,chd->srhd", msa, params["wq"]) * d ** -0.5
    k = jnp.einsum("src,chd->srhd", msa, params["wk"])
    v = jnp.einsum("src,chd->srhd", msa, params["wv"])
    gate = jax.nn.sigmoid(jnp.einsum("src,chd->srhd", msa, params["wg"]) + params["bg"])
    bias = jnp.einsum("ijp,ph->hij", pair, params["wb"])
    logits = jnp.einsum("sihd,sjhd->shij", q, k) + bias[None]
    logits = jnp.where(res_mask[None, None, None, :], logits, jnp.finfo(logits.dtype).min)
    w = jax.nn.softmax(logits, axis=-1)
    o = gate * jnp.einsum("shij,sjhd->sihd", w, v)
    return jnp.einsum("sihd,hdc->sic", o, params["wo"])
