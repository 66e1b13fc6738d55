"""Visual search: attention over the k most similar shop images only.

TopKReader(k, temperature).read(query, gallery, labels)
    query    [Q, D]  image vectors (any length, normalised inside)
    gallery  [N, D]
    labels   [N, C]  attributes of the gallery images
-> (attributes [Q, C], index [Q, k], weight [Q, k])

For each query the k gallery images with the largest cosine are taken,
    w = softmax(cos / temperature) over these k,    attributes = sum w_n labels_n
and index[i, r] is the image that weight[i, r] belongs to.
"""
import numpy as np


def unit(x, eps=1e-12):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), eps)


class TopKReader:
    def __init__(self, k=5, temperature=0.1):
        self.k = k
        self.temperature = temperature

    def nearest(self, sim):
        """k best per row: (values, positions); positions ascend, because the gallery is
        a memory map that should be read from front to back"""
        k = min(self.k, sim.shape[1])
        pos = np.sort(np.argpartition(-sim, k - 1, axis=1)[:, :k], axis=1)
        val = np.take_along_axis(sim, pos, axis=1)
        val = -np.sort(-val, axis=1)
        return val, pos

    def read(self, query, gallery, labels):
        sim = unit(query) @ unit(gallery).T
        val, pos = self.nearest(sim)
        z = val / self.temperature
        e = np.exp(z - z.max(axis=1, keepdims=True))
        w = e / e.sum(axis=1, keepdims=True)
        out = np.einsum("qk,qkc->qc", w, labels[pos])
        return out, pos, w


def recall_at_k(pos, truth):
    """share of queries whose true image is in the list"""
    return float(np.mean([t in p for t, p in zip(truth, pos)]))


def centre_crop(img, size):
    h, w = img.shape[:2]
    a, b = (h - size) // 2, (w - size) // 2
    return img[a:a + size, b:b + size]
