import numpy as np


def paged_attention(query, key_pages, value_pages, block_table, context_len):
    """Decoding with a paged cache.

    query        (H, D)              one new token
    key_pages    (P, page, K, D)     pages of keys, H a multiple of K, consecutive query heads share a key head
    value_pages  (P, page, K, D)
    block_table  (n,) int            the pages of this sequence, in order
    context_len  int                 how many tokens of those pages are filled
    """
    H, D = query.shape
    page, K = key_pages.shape[1:3]
    q = query.reshape(K, H // K, D) / np.sqrt(D)
    top = np.full((K, H // K), -np.inf)
    total = np.zeros((K, H // K))
    out = np.zeros((K, H // K, D))
    for n, block in enumerate(block_table):
        valid = min(page, context_len - n * page)
        if valid <= 0:
            break
        k, v = key_pages[block, :valid], value_pages[block, :valid]
        s = np.einsum("kgd,pkd->kgp", q, k)
        new_top = np.maximum(top, s.max(-1))
        shrink = np.exp(top - new_top)
        w = np.exp(s - new_top[..., None])
        total = total * shrink + w.sum(-1)
        out = out * shrink[..., None] + np.einsum("kgp,pkd->kgd", w, v)
        top = new_top
    return (out / total[..., None]).reshape(H, D)
