"""torch.nn.MultiheadAttention -> JAX, weights taken from the state dict.

    params = params_from_torch({k: v.numpy() for k, v in mha.state_dict().items()})
    out, w = mha_apply(params, query, key, value, num_heads=8)

The goal is np.allclose with the torch module in eval mode (batch_first=True,
embed_dim for all three inputs, no bias_k, no add_zero_attn).
"""
import jax
import jax.numpy as jnp


def params_from_torch(sd):
    wq, wk, wv = jnp.split(jnp.asarray(sd["in_proj_weight"]), 3, axis=0)
    bq, bk, bv = jnp.split(jnp.asarray(sd["in_proj_bias"]), 3)
    # torch keeps (out, in); here x @ W
    return {
        "q": (wq.T, bq), "k": (wk.T, bk), "v": (wv.T, bv),
        "o": (jnp.asarray(sd["out_proj.weight"]).T, jnp.asarray(sd["out_proj.bias"])),
    }


def _proj(wb, x):
    return x @ wb[0] + wb[1]


def mha_apply(params, query, key, value, num_heads, key_padding_mask=None):
    """query (N, L, E); key, value (N, S, E).

    key_padding_mask: (N, S) bool, True = ignore this key (torch's meaning). At least
    one key per sample has to be False.
    Returns the output (N, L, E) and the weights averaged over heads (N, L, S), as torch does
    by default.
    """
    N, L, E = query.shape
    S = key.shape[1]
    dh = E // num_heads
    q = _proj(params["q"], query).reshape(N, L, num_heads, dh)
    k = _proj(params["k"], key).reshape(N, S, num_heads, dh)
    v = _proj(params["v"], value).reshape(N, S, num_heads, dh)
    logits = jnp.einsum("nlhd,nshd->nhls", q * dh ** -0.5, k)
    if key_padding_mask is not None:
        logits = jnp.where(key_padding_mask[:, None, None, :], -jnp.inf, logits)
    w = jax.nn.softmax(logits, axis=-1)
    o = jnp.einsum("nhls,nshd->nlhd", w, v).reshape(N, L, E)
    return _proj(params["o"], o), w.mean(axis=1)
