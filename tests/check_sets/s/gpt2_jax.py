"""GPT-2 in plain JAX. `params` is the HF state dict, nested: params["h"]["0"]["attn"]["c_attn"]...

HF stores Conv1D weights as (in, out); c_attn is the concatenation q | k | v.
"""
import jax
import jax.numpy as jnp


def norm(p, x):
    x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * p["weight"] + p["bias"]


def dense(p, x):
    return x @ p["weight"] + p["bias"]


def attn(p, x, n_head):
    T, D = x.shape
    d = D // n_head
    qkv = dense(p["c_attn"], x).reshape(T, n_head, 3, d)
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    w = jnp.einsum("thd,shd->hts", q, k) / jnp.sqrt(d)
    w = jnp.where(jnp.tri(T, dtype=bool), w, jnp.finfo(w.dtype).min)
    w = jax.nn.softmax(w, axis=-1)
    y = jnp.einsum("hts,shd->thd", w, v).reshape(T, D)
    return dense(p["c_proj"], y)


def mlp(p, x):
    return dense(p["c_proj"], jax.nn.gelu(dense(p["c_fc"], x), approximate=True))


def gpt2(params, ids, n_head):
    """ids (T,) -> logits (T, vocab)"""
    x = params["wte"]["weight"][ids] + params["wpe"]["weight"][: ids.shape[0]]
    for i in range(len(params["h"])):
        b = params["h"][str(i)]
        x = x + attn(b["attn"], norm(b["ln_1"], x), n_head)
        x = x + mlp(b["mlp"], norm(b["ln_2"], x))
    return norm(params["ln_f"], x) @ params["wte"]["weight"].T
