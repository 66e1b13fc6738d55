"""Contrastive pre-training of (street view, satellite) pairs, loss only.

Mixture of backends: embeddings are computed by a torch model, the loss and its
gradient with respect to the embeddings by JAX, the optimiser step in torch again.
"""
import jax
import jax.numpy as jnp
import numpy as np

LOG_T_MAX = float(np.log(100.0))


def l2(x, eps=1e-8):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True) + eps)


def info_nce(queries, keys, log_t, same_place=None):
    """symmetric InfoNCE. queries, keys (n, d); pair i belongs together.

    same_place (n, n) bool: pairs closer than 50 m that are no negatives either
    (the diagonal is always kept). Returns loss and the top-1 accuracy.
    """
    n = queries.shape[0]
    scores = l2(queries) @ l2(keys).T * jnp.exp(jnp.minimum(log_t, LOG_T_MAX))
    if same_place is not None:
        off = same_place & ~jnp.eye(n, dtype=bool)
        scores = jnp.where(off, -jnp.inf, scores)
    rows = jax.nn.log_softmax(scores, axis=1)
    cols = jax.nn.log_softmax(scores, axis=0)
    i = jnp.arange(n)
    loss = -0.5 * (rows[i, i].mean() + cols[i, i].mean())
    return loss, (scores.argmax(1) == i).mean()


loss_and_grad = jax.jit(jax.value_and_grad(info_nce, argnums=(0, 1, 2), has_aux=True))


def near(latlon, metres=50.0):
    """(n, 2) degrees -> (n, n) bool"""
    r = np.radians(np.asarray(latlon, float))
    dlat = r[:, None, 0] - r[None, :, 0]
    dlon = (r[:, None, 1] - r[None, :, 1]) * np.cos(r[:, None, 0])
    return 6_371_000.0 * np.hypot(dlat, dlon) < metres


def torch_step(model, optimiser, street, satellite, latlon, log_t):
    """one update of a two-tower torch model; returns loss, accuracy"""
    import torch

    a, b = model(street, satellite)
    (loss, acc), (ga, gb, gt) = loss_and_grad(
        jnp.asarray(a.detach().cpu().numpy()), jnp.asarray(b.detach().cpu().numpy()),
        jnp.float32(log_t.item()), jnp.asarray(near(latlon)))
    optimiser.zero_grad()
    torch.autograd.backward([a, b], [torch.from_numpy(np.array(ga)).to(a),
                                     torch.from_numpy(np.array(gb)).to(b)])
    log_t.grad = torch.full_like(log_t, float(gt))
    optimiser.step()
    return float(loss), float(acc)


if __name__ == "__main__":
    g = np.random.default_rng(0)
    q = jnp.asarray(g.normal(size=(8, 16)))
    print(info_nce(q, q + 0.1, jnp.log(10.0)))
