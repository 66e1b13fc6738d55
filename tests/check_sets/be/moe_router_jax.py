"""Token-choice mixture of experts with top-k routing (JAX).

Every token goes to its k best experts; their outputs are weighted by the
renormalised router probabilities.  The auxiliary loss balances the load.
"""
import jax
import jax.numpy as jnp


def init_moe(rng, dim, hidden, n_experts):
    a, b, c = jax.random.split(rng, 3)
    return {
        "keys": jax.random.normal(a, (n_experts, dim)) * dim ** -0.5,
        "up": jax.random.normal(b, (n_experts, dim, hidden)) * dim ** -0.5,
        "down": jax.random.normal(c, (n_experts, hidden, dim)) * hidden ** -0.5,
    }


def route(keys, x, k):
    """x [T, D] -> gate weights [T, E] (zero outside the top k), probabilities [T, E]"""
    scores = x @ keys.T
    probs = jax.nn.softmax(scores, axis=-1)
    top, idx = jax.lax.top_k(probs, k)
    top = top / top.sum(-1, keepdims=True)
    onehot = jax.nn.one_hot(idx, keys.shape[0])
    return jnp.einsum("tk,tke->te", top, onehot), probs


def load_balance_loss(gates, probs):
    n = probs.shape[-1]
    frac = (gates > 0).mean(0)
    return n * jnp.sum(frac * probs.mean(0))


def moe_layer(params, x, k=2):
    """x [T, D] -> y [T, D], auxiliary loss"""
    gates, probs = route(params["keys"], x, k)
    h = jax.nn.silu(jnp.einsum("td,edh->teh", x, params["up"]))
    expert_out = jnp.einsum("teh,ehd->ted", h, params["down"])
    y = jnp.einsum("te,ted->td", gates, expert_out)
    return x + y, load_balance_loss(gates, probs)


if __name__ == "__main__":
    r = jax.random.PRNGKey(0)
    p = init_moe(r, 16, 32, 6)
    y, aux = moe_layer(p, jax.random.normal(r, (10, 16)))
    print(y.shape, aux)
