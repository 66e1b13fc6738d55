import jax
import jax.numpy as jnp


def skew(qe):
    """(H, L, L) indexed by [query, embedding] -> (H, L, L) indexed by [query, key]."""
    H, L, _ = qe.shape
    padded = jnp.pad(qe, ((0, 0), (0, 0), (0, 1)))
    return padded.reshape(H, L + 1, L)[:, 1:, :]


def relative_attention(q, k, v, E):
    """Causal attention of the Music Transformer (Huang et al. 2018):

        softmax((q_i . k_j + q_i . E_{L-1-(i-j)}) / sqrt(d)),   j <= i

    E's last row stands for distance 0, the one before it for distance 1, and so on.
    q, k, v: (H, L, d);  E: (H, L, d)
    """
    H, L, d = q.shape
    s_rel = skew(jnp.einsum("hid,hrd->hir", q, E))
    s = (jnp.einsum("hid,hjd->hij", q, k) + s_rel) / jnp.sqrt(d)
    s = jnp.where(jnp.tril(jnp.ones((L, L), bool)), s, -jnp.inf)
    return jax.nn.softmax(s, axis=-1) @ v
