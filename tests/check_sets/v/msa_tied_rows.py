"""Row attention over a multiple sequence alignment; all sequences share ("tie") one map of residue contacts."""
import numpy as np


class TiedRowAttention:
    def __init__(self, embed_dim, num_heads, seed=0):
        rng = np.random.RandomState(seed)
        self.H = num_heads
        self.D = embed_dim // num_heads
        names = ("q", "k", "v", "o")
        self.W = {n: rng.randn(embed_dim, embed_dim) / np.sqrt(embed_dim) for n in names}
        self.b = {n: 0.02 * rng.randn(embed_dim) for n in names}

    def project(self, name, msa):
        R, C, B, E = msa.shape
        return (msa @ self.W[name] + self.b[name]).reshape(R, C, B, self.H, self.D)

    def __call__(self, msa, padding_mask=None):
        """
        msa           [rows, columns, batch, embed_dim]
        padding_mask  [batch, rows, columns], True at padding
        returns the new msa and the map [heads, batch, columns, columns]
        """
        R, C, B, E = msa.shape
        q = self.project("q", msa)
        k = self.project("k", msa)
        v = self.project("v", msa)
        # the sum below runs over the rows too
        q = q * (self.D ** -0.5 / np.sqrt(R))
        if padding_mask is not None:
            q = q * (1.0 - padding_mask.transpose(1, 2, 0)[..., None, None])

        logits = np.einsum("rinhd,rjnhd->hnij", q, k)
        if padding_mask is not None:
            logits = np.where(padding_mask[:, 0][None, :, None, :], -10000.0, logits)
        logits -= logits.max(axis=3, keepdims=True)
        probs = np.exp(logits)
        probs /= probs.sum(axis=3, keepdims=True)

        ctx = np.einsum("hnij,rjnhd->rinhd", probs, v).reshape(R, C, B, E)
        return ctx @ self.W["o"] + self.b["o"], probs


def apc(contacts):
    """Average product correction of a symmetric map."""
    a = contacts.sum(-1, keepdims=True)
    return contacts - a * a.swapaxes(-1, -2) / contacts.sum((-1, -2), keepdims=True)


if __name__ == "__main__":
    rng = np.random.RandomState(1)
    msa = rng.randn(5, 9, 2, 16)
    pad = np.zeros((2, 5, 9), dtype=bool)
    pad[1, :, 7:] = True
    out, probs = TiedRowAttention(16, 2)(msa, pad)
    sym = probs + probs.swapaxes(-1, -2)
    print(out.shape, apc(sym)[0, 0, :3, :3].round(3))
