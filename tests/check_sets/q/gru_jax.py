import jax
import jax.numpy as jnp


def gru_encode(params, xs, h0):
    """xs (T, B, D), h0 (B, H) -> all hidden states (T, B, H)"""

    def step(h, x):
        z = jax.nn.sigmoid(x @ params["Wz"] + h @ params["Uz"])
        r = jax.nn.sigmoid(x @ params["Wr"] + h @ params["Ur"])
        c = jnp.tanh(x @ params["Wc"] + (r * h) @ params["Uc"])
        h = (1 - z) * h + z * c
        return h, h

    return jax.lax.scan(step, h0, xs)[1]
