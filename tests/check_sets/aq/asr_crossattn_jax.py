"""Decoder of the encoder-decoder speech recogniser, pure functions over a params dict."""
import jax
import jax.numpy as jnp


def dense_init(key, n_in, n_out, bias=True):
    w = jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in)
    return {"w": w, "b": jnp.zeros(n_out)} if bias else {"w": w}


def dense(p, x):
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def layer_norm(p, x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + eps) * p["g"] + p["b"]


def init_cross(key, d_model):
    kq, kk, kv, ko = jax.random.split(key, 4)
    return {
        "q": dense_init(kq, d_model, d_model),
        "k": dense_init(kk, d_model, d_model, bias=False),
        "v": dense_init(kv, d_model, d_model),
        "o": dense_init(ko, d_model, d_model),
        "ln": {"g": jnp.ones(d_model), "b": jnp.zeros(d_model)},
    }


def audio_kv(params, audio, n_head):
    """Keys and values of the audio, computed once for an utterance: [B, F, H, d] each."""
    b, f, c = audio.shape
    split = (b, f, n_head, c // n_head)
    return dense(params["k"], audio).reshape(split), dense(params["v"], audio).reshape(split)


def cross_attention(params, x, kv, n_frames, n_head):
    """x [B, T, C] text states; n_frames [B] number of real audio frames (at least one each).

    The scale is divided evenly between q and k, which keeps half precision in range.
    """
    k, v = kv
    b, t, c = x.shape
    d = c // n_head
    q = dense(params["q"], layer_norm(params["ln"], x)).reshape(b, t, n_head, d)
    half = d ** -0.25
    s = jnp.einsum("bthd,bfhd->bhtf", q * half, k * half)
    ok = jnp.arange(k.shape[1])[None, :] < n_frames[:, None]
    s = jnp.where(ok[:, None, None, :], s, -jnp.inf)
    w = jax.nn.softmax(s, axis=-1)
    out = jnp.einsum("bhtf,bfhd->bthd", w, v).reshape(b, t, c)
    return dense(params["o"], out), w


def alignment(weights, heads):
    """Token to frame path from the mean of the alignment heads (greedy)."""
    return weights[:, jnp.asarray(heads)].mean(1).argmax(-1)
