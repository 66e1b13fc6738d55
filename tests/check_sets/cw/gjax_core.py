import jax
import jax.numpy as jnp

DEFAULTS = {"softcap": 30.0, "window": None, "scale": None}


def local_gqa(q, k, v, valid=None, cfg=None):
    """Causal grouped-query attention with soft-capped logits.

    Shapes: q [B, Lq, H, D], k and v [B, Lk, G, D]; query head h belongs to group h // (H // G).
    The Lq queries are the last ones of the Lk positions.
    cfg["softcap"]: logits are squashed to (-cap, cap) by cap * tanh(x / cap); None turns it off.
    cfg["window"]:  number of keys a query sees, itself included; None means all before it.
    cfg["scale"]:   factor on q.k, default D ** -0.5.
    valid [B, Lk] bool: False keys are hidden. A query with nothing to see gets zeros.
    """
    c = {**DEFAULTS, **(cfg or {})}
    B, Lq, H, D = q.shape
    Lk, G = k.shape[1], k.shape[2]
    scale = D ** -0.5 if c["scale"] is None else c["scale"]
    qg = q.reshape(B, Lq, G, H // G, D)
    s = jnp.einsum("bqgrd,bkgd->bgrqk", qg, k, preferred_element_type=jnp.float32) * scale
    if c["softcap"] is not None:
        s = c["softcap"] * jnp.tanh(s / c["softcap"])
    i = jnp.arange(Lq)[:, None] + Lk - Lq
    j = jnp.arange(Lk)[None, :]
    see = j <= i
    if c["window"] is not None:
        see &= j > i - c["window"]
    see = see[None, None, None]
    if valid is not None:
        see = see & valid[:, None, None, None, :]
    s = jnp.where(see, s, jnp.finfo(s.dtype).min)
    w = jnp.where(see, jax.nn.softmax(s, axis=-1), 0.0)
    o = jnp.einsum("bgrqk,bkgd->bqgrd", w, v.astype(w.dtype))
    return o.reshape(B, Lq, H, D).astype(q.dtype)
