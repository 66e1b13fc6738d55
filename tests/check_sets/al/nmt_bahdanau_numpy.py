"""Neural machine translation by jointly learning to align and translate
(Bahdanau, Cho & Bengio 2015), forward pass only, NumPy.

    e_ij    = v_a^T tanh(W_a s_{i-1} + U_a h_j)
    alpha_i = softmax(e_i)
    c_i     = sum_j alpha_ij h_j
"""
import numpy as np


def sigm(x):
    return 1.0 / (1.0 + np.exp(-x))


def gru_step(x, h, P):
    z = sigm(x @ P["Wz"] + h @ P["Uz"])
    r = sigm(x @ P["Wr"] + h @ P["Ur"])
    n = np.tanh(x @ P["Wh"] + (r * h) @ P["Uh"])
    return (1 - z) * h + z * n


class BiEncoder:
    def __init__(self, emb, fwd, bwd):
        self.emb, self.fwd, self.bwd = emb, fwd, bwd

    def __call__(self, src):
        """src: [B, S] word ids -> annotations [B, S, 2n]."""
        x = self.emb[src]
        B, S, _ = x.shape
        n = self.fwd["Uz"].shape[0]
        hf, hb = np.zeros((B, n)), np.zeros((B, n))
        F, R = [], []
        for t in range(S):
            hf = gru_step(x[:, t], hf, self.fwd)
            F.append(hf)
        for t in reversed(range(S)):
            hb = gru_step(x[:, t], hb, self.bwd)
            R.append(hb)
        return np.concatenate([np.stack(F, 1), np.stack(R[::-1], 1)], -1)


class Aligner:
    """Alignment model a(s_{i-1}, h_j)."""

    def __init__(self, W_a, U_a, v_a):
        self.W_a, self.U_a, self.v_a = W_a, U_a, v_a

    def precompute(self, H):
        return H @ self.U_a

    def __call__(self, s_prev, H, UH, src_len):
        """s_prev [B, n], H [B, S, 2n], UH [B, S, n'], src_len [B] -> context, alpha."""
        hidden = (s_prev @ self.W_a)[:, None, :] + UH
        e = hidden @ self.v_a
        dead = np.arange(H.shape[1])[None, :] >= src_len[:, None]
        e = np.where(dead, -1e30, e)
        e = e - e.max(axis=1, keepdims=True)
        alpha = np.exp(e)
        alpha /= alpha.sum(axis=1, keepdims=True)
        return np.einsum("bs,bsd->bd", alpha, H), alpha


class Decoder:
    def __init__(self, emb, aligner, gru, W_out):
        self.emb, self.aligner, self.gru, self.W_out = emb, aligner, gru, W_out

    def run(self, tgt, s0, H, src_len):
        UH = self.aligner.precompute(H)
        s, logits, links = s0, [], []
        for i in range(tgt.shape[1]):
            c, alpha = self.aligner(s, H, UH, src_len)
            y = self.emb[tgt[:, i]]
            s = gru_step(np.concatenate([y, c], -1), s, self.gru)
            logits.append(np.concatenate([s, c], -1) @ self.W_out)
            links.append(alpha)
        return np.stack(logits, 1), np.stack(links, 1)
