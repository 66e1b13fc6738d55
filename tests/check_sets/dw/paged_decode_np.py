"""Reference for the paged decode kernel (NumPy, slow on purpose).

paged_decode(q, key_pages, val_pages, table, seq_len)
    q          (S, Hq, d)            one new query per running sequence
    key_pages  (P, page, Hkv, d)     pool of key pages, val_pages the same for values
    table      (S, max_pages) int    table[s, n] = pool index of the n-th page of sequence s
                                     (entries beyond the sequence are arbitrary, may be -1)
    seq_len    (S,) int >= 1         tokens of s, the new one included and already stored
returns (S, Hq, d), float32.

Token number t of sequence s lies in page table[s, t // page] at row t % page.  Query heads
come in Hkv consecutive groups: heads 0 .. Hq/Hkv - 1 read kv head 0, and so on.  Online softmax
over pages in float32, scale 1/sqrt(d).  Rows of a page beyond seq_len hold garbage.
"""
import numpy as np


def paged_decode(q, key_pages, val_pages, table, seq_len):
    S, Hq, d = q.shape
    _, page, Hkv, _ = key_pages.shape
    g = Hq // Hkv
    out = np.zeros((S, Hq, d), np.float32)

    for s in range(S):
        left = int(seq_len[s])
        qs = q[s].reshape(Hkv, g, d).astype(np.float32) / np.sqrt(d)
        run_max = np.full((Hkv, g, 1), -np.inf, np.float32)
        run_sum = np.zeros((Hkv, g, 1), np.float32)
        acc = np.zeros((Hkv, g, d), np.float32)
        n = 0
        while left > 0:
            rows = min(page, left)
            kp = key_pages[table[s, n], :rows].astype(np.float32)       # rows, Hkv, d
            vp = val_pages[table[s, n], :rows].astype(np.float32)
            sc = np.einsum("kgd,rkd->kgr", qs, kp)
            new_max = np.maximum(run_max, sc.max(-1, keepdims=True))
            fade = np.exp(run_max - new_max)
            p = np.exp(sc - new_max)
            run_sum = run_sum * fade + p.sum(-1, keepdims=True)
            acc = acc * fade + np.einsum("kgr,rkd->kgd", p, vp)
            run_max = new_max
            left -= rows
            n += 1
        out[s] = (acc / run_sum).reshape(Hq, d)
    return out
