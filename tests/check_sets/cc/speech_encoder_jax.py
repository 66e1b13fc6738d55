"""Acoustic encoder layer in jax (functional; params are nested dicts).

Downsamples filterbanks by stacking frames, then a pre-norm self-attention layer with
`n_heads` heads; heads are concatenated before the output projection.
`n_frames` gives the true length of each utterance after stacking.
"""
import jax
import jax.numpy as jnp


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def init_layer(key, n_mels=20, stack=2, d_model=32):
    keys = jax.random.split(key, 7)
    return {
        "stem": dense_init(keys[0], n_mels * stack, d_model),
        "q": dense_init(keys[1], d_model, d_model),
        "k": dense_init(keys[2], d_model, d_model),
        "v": dense_init(keys[3], d_model, d_model),
        "o": dense_init(keys[4], d_model, d_model),
        "ff1": dense_init(keys[5], d_model, 2 * d_model),
        "ff2": dense_init(keys[6], 2 * d_model, d_model),
    }


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-6)


def stack_frames(fbank, stack):
    b, t, m = fbank.shape
    t = t - t % stack
    return fbank[:, :t].reshape(b, t // stack, m * stack)


def attention(p, x, n_frames, n_heads):
    b, t, d = x.shape
    dh = d // n_heads

    def heads(y):
        return y.reshape(b, t, n_heads, dh).swapaxes(1, 2)

    q, k, v = heads(dense(p["q"], x)), heads(dense(p["k"], x)), heads(dense(p["v"], x))
    logits = q @ k.swapaxes(-1, -2) * dh ** -0.5
    inside = jnp.arange(t)[None, :] < n_frames[:, None]
    logits = jnp.where(inside[:, None, None, :], logits, jnp.finfo(logits.dtype).min)
    ctx = jax.nn.softmax(logits, axis=-1) @ v
    ctx = ctx.reshape(b, t, d)
    return dense(p["o"], ctx)


def encode(params, fbank, n_frames, n_heads=4, stack=2):
    """fbank [B, T, n_mels] -> [B, T // stack, d_model]"""
    x = dense(params["stem"], stack_frames(fbank, stack))
    x = x + attention(params, layer_norm(x), n_frames, n_heads)
    h = jax.nn.silu(dense(params["ff1"], layer_norm(x)))
    return x + dense(params["ff2"], h)
