"""Token routing for a mixture-of-experts feed-forward layer (JAX).

Every token is scored against a learned key of every expert and is sent to its top-k experts;
experts have a fixed capacity and drop what comes too late.
"""
import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class RouterConfig:
    num_experts: int = 8
    top_k: int = 2
    capacity_factor: float = 1.25
    z_loss: float = 1e-3


def init_router(rng, dim, hidden, cfg):
    k1, k2, k3 = jax.random.split(rng, 3)
    return {
        "expert_keys": jax.random.normal(k1, (cfg.num_experts, dim)) * dim ** -0.5,
        "w_in": jax.random.normal(k2, (cfg.num_experts, dim, hidden)) * dim ** -0.5,
        "w_out": jax.random.normal(k3, (cfg.num_experts, hidden, dim)) * hidden ** -0.5,
    }


def load_balance_loss(probs, chosen):
    """Switch Transformer, eq. 4."""
    e = probs.shape[-1]
    return e * jnp.sum(chosen.mean(0) * probs.mean(0))


def route_tokens(params, queries, cfg=RouterConfig()):
    """queries (tokens, dim) -> dispatch (tokens, experts, capacity), combine (same), losses

    The softmax is over the experts; the weights of the chosen experts are renormalised.
    """
    n = queries.shape[0]
    capacity = int(cfg.capacity_factor * cfg.top_k * n / cfg.num_experts + 0.999)
    scores = jnp.einsum("td,ed->te", queries, params["expert_keys"])
    weights = jax.nn.softmax(scores.astype(jnp.float32), axis=-1)

    top_w, top_i = jax.lax.top_k(weights, cfg.top_k)
    top_w = top_w / top_w.sum(-1, keepdims=True)

    onehot = jax.nn.one_hot(top_i, cfg.num_experts)                     # (t, k, e)
    # slot of a token in its expert: first choices of all tokens go before second choices
    order = onehot.transpose(1, 0, 2).reshape(-1, cfg.num_experts)
    slot = (jnp.cumsum(order, axis=0) - 1) * order
    slot = slot.reshape(cfg.top_k, n, -1).transpose(1, 0, 2).sum(-1).astype(jnp.int32)
    fits = slot < capacity
    place = jax.nn.one_hot(slot, capacity) * fits[..., None]            # (t, k, c)

    dispatch = jnp.einsum("tke,tkc->tec", onehot, place)
    combine = jnp.einsum("tk,tke,tkc->tec", top_w, onehot, place)
    losses = {
        "balance": load_balance_loss(weights, onehot.sum(1)),
        "z": cfg.z_loss * jnp.mean(jax.nn.logsumexp(scores, axis=-1) ** 2),
    }
    return dispatch, combine, losses


def moe_layer(params, x, cfg=RouterConfig()):
    dispatch, combine, losses = route_tokens(params, x, cfg)
    inp = jnp.einsum("tec,td->ecd", dispatch, x)
    hid = jax.nn.gelu(jnp.einsum("ecd,edh->ech", inp, params["w_in"]))
    out = jnp.einsum("ech,ehd->ecd", hid, params["w_out"])
    return jnp.einsum("tec,ecd->td", combine, out), losses


if __name__ == "__main__":
    cfg = RouterConfig()
    p = init_router(jax.random.PRNGKey(0), 16, 32, cfg)
    y, aux = moe_layer(p, jax.random.normal(jax.random.PRNGKey(1), (40, 16)), cfg)
    print(y.shape, aux)
