import jax
import jax.numpy as jnp


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def bert_attention(params, hidden, input_mask, num_heads=2):
    """BERT self-attention.

    hidden: (batch, length, width)
    input_mask: (batch, length), 1 for tokens, 0 for padding; no token may attend to padding.
    params: {"query" | "key" | "value" | "output": {"kernel": (width, width), "bias": (width,)}}
    """
    batch, length, width = hidden.shape
    head = width // num_heads
    q = dense(params["query"], hidden).reshape(batch, length, num_heads, head)
    k = dense(params["key"], hidden).reshape(batch, length, num_heads, head)
    v = dense(params["value"], hidden).reshape(batch, length, num_heads, head)

    scores = jnp.einsum("BFNH,BTNH->BNFT", q, k) / jnp.sqrt(head)
    adder = (1.0 - input_mask[:, None, :, None]) * -10000.0
    probs = jax.nn.softmax(scores + adder, axis=-1)
    context = jnp.einsum("BNFT,BTNH->BFNH", probs, v)
    return dense(params["output"], context.reshape(batch, length, width))
