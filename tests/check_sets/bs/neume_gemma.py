"""Square-notation chant -> solfege, a Gemma-2-like block in bare JAX.

The parameters are a nested dict (what the checkpoint converter writes), every function is pure.
Attention logits are soft-capped, cap * tanh(logits / cap), which bounds them to (-cap, cap); the
model is causal and never looks at padded neumes.
"""
import jax
import jax.numpy as jnp
import numpy as np

CFG = {"dim": 24, "heads": 3, "head_dim": 8, "attn_cap": 5.0, "final_cap": 30.0, "eps": 1e-6}
CLEFS = ("ut", "fa")
NEUMES = ("punctum", "virga", "podatus", "clivis", "scandicus", "climacus", "torculus", "porrectus", "quilisma")


def init_params(seed=0, cfg=CFG, vocab=len(NEUMES) * 8 + 1):
    rng = np.random.default_rng(seed)

    def w(*shape, fan):
        return jnp.asarray(rng.normal(0, fan ** -0.5, shape), jnp.float32)

    D, H, K = cfg["dim"], cfg["heads"], cfg["head_dim"]
    return {
        "embed": w(vocab, D, fan=1),
        "attn": {"q": w(H, D, K, fan=D), "kv": w(2, H, D, K, fan=D), "o": w(H, K, D, fan=H * K)},
        "mlp": {"gate": w(D, 2 * D, fan=D), "up": w(D, 2 * D, fan=D), "down": w(2 * D, D, fan=2 * D)},
        "pre": jnp.zeros(D), "post": jnp.zeros(D), "pre_mlp": jnp.zeros(D), "final": jnp.zeros(D),
    }


def norm(x, g, eps=1e-6):
    y = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + eps)
    return y * (1.0 + g)


def softcap(x, cap):
    return cap * jnp.tanh(x / cap)


def rope(x, wavelength=10_000.0):
    """x [B, L, H, K], halves paired."""
    L, K = x.shape[1], x.shape[-1]
    t = wavelength ** (2 * jnp.arange(K // 2) / K)
    a = (jnp.arange(L)[:, None] / t)[None, :, None, :]
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate([x1 * jnp.cos(a) - x2 * jnp.sin(a), x2 * jnp.cos(a) + x1 * jnp.sin(a)], -1)


def attention(p, x, lengths, cfg=CFG):
    """p: the "attn" sub-dict; x [B, L, D]; lengths [B] number of neumes in each chant."""
    L = x.shape[1]
    q = jnp.einsum("bld,hdk->blhk", x, p["q"])
    k, v = jnp.einsum("bld,nhdk->nblhk", x, p["kv"])
    q = rope(q) * cfg["head_dim"] ** -0.5
    k = rope(k)
    logits = jnp.einsum("blhk,bmhk->bhlm", q, k)
    i = jnp.arange(L)
    seen = (i[None, None, :] <= i[None, :, None]) & (i[None, None, :] < lengths[:, None, None])
    logits = jnp.where(seen[:, None], logits, jnp.finfo(logits.dtype).min)
    logits = softcap(logits, cfg["attn_cap"])
    probs = jax.nn.softmax(logits, axis=-1)
    y = jnp.einsum("bhlm,bmhk->blhk", probs, v)
    return jnp.einsum("blhk,hkd->bld", y, p["o"])


def block(params, x, lengths, cfg=CFG):
    h = attention(params["attn"], norm(x, params["pre"]), lengths, cfg)
    x = x + norm(h, params["post"])
    m, h = params["mlp"], norm(x, params["pre_mlp"])
    return x + (jax.nn.gelu(h @ m["gate"]) * (h @ m["up"])) @ m["down"]


def chant_logits(params, ids, lengths, cfg=CFG):
    x = params["embed"][ids] * cfg["dim"] ** 0.5
    x = block(params, x, lengths, cfg)
    return softcap(norm(x, params["final"]) @ params["embed"].T, cfg["final_cap"])


def loss(params, ids, lengths):
    lp = jax.nn.log_softmax(chant_logits(params, ids, lengths)[:, :-1])
    nll = -jnp.take_along_axis(lp, ids[:, 1:, None], -1)[..., 0]
    w = jnp.arange(1, ids.shape[1])[None] < lengths[:, None]
    return (nll * w).sum() / w.sum()


if __name__ == "__main__":
    P = init_params()
    ids = jax.random.randint(jax.random.PRNGKey(1), (2, 9), 0, 72)
    print(jax.jit(jax.value_and_grad(loss))(P, ids, jnp.array([9, 5]))[0])
