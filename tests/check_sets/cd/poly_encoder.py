"""Poly-encoder scoring for response retrieval (Humeau et al. 2020), numpy only.

Context token vectors -> m learned codes each attend over the tokens -> the
candidate vector attends over the m results -> dot product with the candidate.
All attentions are basic dot-product attention: as in the paper the products are
not divided by sqrt(d).  Tokens past the length of a context are not seen.
"""
import numpy as np


def masked_softmax(logits, keep):
    """Softmax over the last axis restricted to ``keep`` (at least one per row)."""
    logits = np.where(keep, logits, -np.inf)
    logits = logits - logits.max(axis=-1, keepdims=True)
    e = np.exp(logits)
    return e / e.sum(axis=-1, keepdims=True)


class PolyEncoder:
    def __init__(self, codes):
        self.codes = np.asarray(codes)  # (m, d)

    @property
    def dim(self):
        return self.codes.shape[1]

    def encode_context(self, tokens, lengths):
        """tokens (B, T, d), lengths (B,) -> (B, m, d)"""
        keep = np.arange(tokens.shape[1]) < np.asarray(lengths)[:, None]
        logits = np.einsum("md,btd->bmt", self.codes, tokens)
        weights = masked_softmax(logits, keep[:, None, :])
        return np.einsum("bmt,btd->bmd", weights, np.where(keep[..., None], tokens, 0.0))

    def score(self, context, candidates):
        """context (B, m, d) from encode_context, candidates (C, d) -> (B, C)"""
        logits = np.einsum("cd,bmd->bcm", candidates, context)
        weights = masked_softmax(logits, np.True_)
        final = np.einsum("bcm,bmd->bcd", weights, context)
        return np.einsum("bcd,cd->bc", final, candidates)

    def __call__(self, tokens, lengths, candidates):
        return self.score(self.encode_context(tokens, lengths), candidates)


class ResponseIndex:
    """Candidates are encoded once; contexts come in at query time."""

    def __init__(self, encoder, vectors, texts):
        self.encoder, self.vectors, self.texts = encoder, vectors, texts

    def search(self, tokens, lengths, k=3):
        scores = self.encoder(tokens, lengths, self.vectors)
        top = np.argsort(-scores, axis=1)[:, :k]
        return [[(self.texts[j], float(s[j])) for j in row] for s, row in zip(scores, top)]
