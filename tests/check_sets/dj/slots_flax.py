"""Object-Centric Learning with Slot Attention (Locatello et al., 2020), Algorithm 1.

    attn    = softmax( k(inputs) q(slots)^T / sqrt(D), axis='slots' )
    updates = weighted mean of v(inputs), weights = attn + eps, normalised over inputs
    slots   = GRU(updates, slots);  slots += MLP(LayerNorm(slots))

The softmax runs over the slots, so that slots compete for each input; the mean over the
inputs is a second, ordinary normalisation.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class SlotAttention(nn.Module):
    """__call__(inputs, slots)

    inputs (B, N, D_in) features of pixels
    slots  (B, K, D)    initial slots (drawn by the caller from the learned Gaussian)
    returns slots (B, K, D) after `iters` rounds, and attn (B, N, K) of the last round,
    whose sum over the K slots is 1 for every input.
    """
    D: int = 16
    hidden: int = 32
    iters: int = 3
    eps: float = 1e-8

    @nn.compact
    def __call__(self, inputs, slots):
        x = nn.LayerNorm(name="norm_in")(inputs)
        k = nn.Dense(self.D, use_bias=False, name="k")(x)
        v = nn.Dense(self.D, use_bias=False, name="v")(x)
        to_q = nn.Dense(self.D, use_bias=False, name="q")
        norm_s = nn.LayerNorm(name="norm_slots")
        norm_m = nn.LayerNorm(name="norm_mlp")
        gru = nn.GRUCell(features=self.D, name="gru")
        up = nn.Dense(self.hidden, name="mlp_up")
        down = nn.Dense(self.D, name="mlp_down")

        attn = None
        for _ in range(self.iters):
            q = to_q(norm_s(slots)) * self.D ** -0.5
            logits = jnp.einsum("bnd,bkd->bnk", k, q)
            attn = jax.nn.softmax(logits, axis=-1)          # slots compete
            w = attn + self.eps
            w = w / w.sum(axis=1, keepdims=True)            # mean over the inputs
            updates = jnp.einsum("bnk,bnd->bkd", w, v)
            slots, _ = gru(slots, updates)
            slots = slots + down(nn.relu(up(norm_m(slots))))
        return slots, attn
