"""Teacher-forced recurrent decoder with attention, written as one jax.lax.scan.

    params  dict of arrays (see init)
    ys      (T, B, D)  embedded target tokens, time first
    enc     (S, B, D)  encoder states, time first
    lens    (B,)       int, number of real encoder states of every sentence (>= 1)
    returns (T, B, D)  attentional vectors

    h_t   = tanh( x_t Wx + [input feeding] o_{t-1} Wf + h_{t-1} Wh )
    a_t   = softmax over the real encoder states of  (h_t . enc_s) / sqrt(D)
    o_t   = tanh( Wc [context; h_t] )          (Luong et al., eq. 5), o_0 = h_0 = 0
"""
import jax
import jax.numpy as jnp


def init(key, D):
    kx, kf, kh, kc = jax.random.split(key, 4)
    s = D ** -0.5
    return {"Wx": s * jax.random.normal(kx, (D, D)), "Wf": s * jax.random.normal(kf, (D, D)),
            "Wh": s * jax.random.normal(kh, (D, D)), "Wc": s * jax.random.normal(kc, (2 * D, D))}


def attend(h, enc, real):
    S = enc.shape[0]
    scores = jnp.einsum("bd,sbd->sb", h, enc) / jnp.sqrt(S)
    scores = jnp.where(real, scores, -jnp.inf)
    a = jax.nn.softmax(scores, axis=0)
    return jnp.einsum("sb,sbd->bd", a, enc)


def decode(params, ys, enc, lens):
    real = jnp.arange(enc.shape[0])[:, None] < lens[None, :]
    zero = jnp.zeros_like(ys[0])

    def tick(carry, x):
        h, o = carry
        h = jnp.tanh(x @ params["Wx"] + o @ params["Wf"] + h @ params["Wh"])
        ctx = attend(h, enc, real)
        o = jnp.concatenate([ctx, h], axis=-1) @ params["Wc"]
        return (h, o), o

    return jax.lax.scan(tick, (zero, zero), ys)[1]
