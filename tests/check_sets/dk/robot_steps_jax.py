"""JAX policy for the gripper: one time step = several tokens (2 cameras, joints, goal).

Within a step all tokens see each other, between steps only the past is seen
("block causal").  `mix(params, x, tokens_per_step, valid)`:

    params  dict with wq, wk, wv [D, H, d] and wo [H, d, D]
    x       [B, S * tokens_per_step, D], step by step
    valid   [B, S] bool, True where the step was really recorded.  Steps are left
            padded; tokens of steps that do not exist are not seen by anybody and
            give zeros.

returns [B, S * tokens_per_step, D].
"""
import jax
import jax.numpy as jnp


def init(key, D, H, d):
    ks = jax.random.split(key, 4)
    mk = lambda k, s: jax.random.normal(k, s) / jnp.sqrt(D)
    return dict(wq=mk(ks[0], (D, H, d)), wk=mk(ks[1], (D, H, d)),
                wv=mk(ks[2], (D, H, d)), wo=mk(ks[3], (H, d, D)))


def block_causal(S, n):
    step = jnp.repeat(jnp.arange(S), n)
    return step[:, None] >= step[None, :]


def mix(params, x, tokens_per_step, valid):
    B, L, D = x.shape
    S = L // tokens_per_step
    d = params["wq"].shape[-1]
    q = jnp.einsum("bld,dhe->blhe", x, params["wq"])
    k = jnp.einsum("bld,dhe->blhe", x, params["wk"])
    v = jnp.einsum("bld,dhe->blhe", x, params["wv"])

    tok_valid = jnp.repeat(valid, tokens_per_step, axis=1)              # [B, L]
    see = block_causal(S, tokens_per_step)[None] & tok_valid[:, None, :]  # [B, L, L]
    logits = jnp.einsum("bqhe,bkhe->bhqk", q, k) * d ** -0.5
    logits = jnp.where(see[:, None], logits, jnp.finfo(logits.dtype).min)
    w = jax.nn.softmax(logits, axis=-1)
    # queries of missing steps have nothing to look at: they get zero
    w = jnp.where(tok_valid[:, None, :, None], w, 0.0)
    out = jnp.einsum("bhqk,bkhe->bqhe", w, v)
    return jnp.einsum("bqhe,hed->bqd", out, params["wo"])


def policy(params, head, obs_tokens, tokens_per_step, valid):
    """head: [D, A]. Action of the newest step = mean of its tokens."""
    y = obs_tokens + mix(params, obs_tokens, tokens_per_step, valid)
    return jnp.tanh(y[:, -tokens_per_step:].mean(1) @ head)
