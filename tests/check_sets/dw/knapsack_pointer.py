"""Pointer decoder that packs items one at a time.

point(params, state, items, packed, last) -> (probs, packed)
    state   (B, H)      decoder state
    items   (B, N, H)   item embeddings
    packed  (B, N) bool True = the item is in the sack already and can't be chosen again
    last    (B,) int64  item chosen in the previous step; it counts as packed from now on
Returned: probs (B, N), exactly 0 for packed items (the one in `last` included), every row sums
to 1; and the updated `packed`.  The arguments are left as they were: beam search hands the same
`packed` to several hypotheses.  At least one item is free in every row.

Logits are c * tanh(v . tanh(W1 items + W2 state)) with c = params["clip"] (tanh exploration);
params: W1, W2 (H, A), v (A,), clip float.
"""
import torch


def point(params, state, items, packed, last):
    packed[torch.arange(packed.shape[0]), last] = True

    key = items @ params["W1"]
    query = (state @ params["W2"])[:, None, :]
    u = torch.tanh(key + query) @ params["v"]
    u = u.masked_fill(packed, -torch.inf)
    u = params["clip"] * torch.tanh(u)
    probs = torch.softmax(u, dim=-1)
    return probs, packed


def make_params(H, A, clip=3.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    return {
        "W1": torch.randn(H, A, generator=g) / H ** 0.5,
        "W2": torch.randn(H, A, generator=g) / H ** 0.5,
        "v": torch.randn(A, generator=g),
        "clip": clip,
    }
