import jax
import jax.numpy as jnp


def sigmoid_attention(params, x, mask=None, *, n_heads):
    """Sigmoid self-attention (Ramapuram et al. 2024): w_ij = sigmoid(q_i . k_j / sqrt(d) + b),  b = -log n.

    There is no softmax and rows do not sum to one; the bias makes their sum about one at the start.
    x: (batch, n, dim);  params: {"qkv": (dim, 3, dim), "out": (dim, dim)};  mask: (batch, n), True for tokens.
    n in the bias is the full length, padding and all.
    """
    batch, n, dim = x.shape
    qkv = jnp.einsum("bnc,ctd->tbnd", x, params["qkv"]).reshape(3, batch, n, n_heads, dim // n_heads)
    q, k, v = qkv[0], qkv[1], qkv[2]
    logits = jnp.einsum("bihd,bjhd->bhij", q, k) * (dim // n_heads) ** -0.5 - jnp.log(n)
    w = jax.nn.sigmoid(logits)
    if mask is not None:
        w = w * mask[:, None, None, :]  # sigmoid(-inf) = 0
    out = jnp.einsum("bhij,bjhd->bihd", w, v).reshape(batch, n, dim)
    return out @ params["out"]
