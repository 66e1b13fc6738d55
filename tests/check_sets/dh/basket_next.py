"""Supermarket basket completion (nightly batch job, CPU only)."""
import numpy as np


def softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def complete(basket, in_basket, catalogue, wq, wk):
    """Rank the catalogue for each basket.

    basket     (B, n, d)  article vectors, filled up to n
    in_basket  (B, n)     1 for real articles, 0 for filling (at least one real)
    catalogue  (M, d)
    wq, wk     (d, r)
    returns    (B, M)     affinity of every article in the catalogue: it averages the basket
                          with weights that depend on the article, then takes the inner product
    """
    q = catalogue @ wq
    k = basket @ wk
    rel = np.einsum("mr,bnr->bmn", q, k) / np.sqrt(wq.shape[1])
    share = softmax(rel)
    share = share * in_basket[:, None, :]
    taste = np.einsum("bmn,bnd->bmd", share, basket)
    return np.einsum("bmd,md->bm", taste, catalogue)
