# audio <-> advert text, symmetric contrastive loss (CLIP style), pure JAX
import jax
import jax.numpy as jnp


def tower_init(key, sizes):
    out = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        key, sub = jax.random.split(key)
        out.append({"w": jax.random.normal(sub, (a, b)) * (2.0 / a) ** 0.5, "b": jnp.zeros(b)})
    return out


def tower(params, x):
    for i, layer in enumerate(params):
        x = x @ layer["w"] + layer["b"]
        if i < len(params) - 1:
            x = jax.nn.gelu(x)
    return x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-8)


def contrast(query, key, log_temp):
    """query, key [N, D] unit vectors of matching pairs -> scalar loss."""
    logits = query @ key.T * jnp.exp(log_temp)
    diag = jnp.arange(query.shape[0])
    row = jax.nn.log_softmax(logits, axis=-1)[diag, diag]
    col = jax.nn.log_softmax(logits, axis=0)[diag, diag]
    return -(row.mean() + col.mean()) / 2


def loss(params, audio, text):
    return contrast(tower(params["audio"], audio), tower(params["text"], text), params["t"])


@jax.jit
def step(params, audio, text, lr=1e-2):
    val, g = jax.value_and_grad(loss)(params, audio, text)
    return jax.tree_util.tree_map(lambda p, d: p - lr * d, params, g), val


def main():
    ka, kt, kx, ky = jax.random.split(jax.random.PRNGKey(0), 4)
    params = {"audio": tower_init(ka, (20, 32, 16)), "text": tower_init(kt, (12, 32, 16)), "t": jnp.array(2.0)}
    x, y = jax.random.normal(kx, (8, 20)), jax.random.normal(ky, (8, 12))
    for _ in range(3):
        params, v = step(params, x, y)
        print(float(v))


if __name__ == "__main__":
    main()
