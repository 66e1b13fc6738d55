"""A Structured Self-attentive Sentence Embedding (Lin et al., 2017) の再実装。

    H = BiLSTM(S)                            (n, 2u)
    A = softmax( W_s2 tanh(W_s1 H^T) )       (r, n)   各行の和が 1（n 単語についての softmax）
    M = A H                                  (r, 2u)
    P = || A A^T - I ||_F^2                  罰則項

r はホップ数（注目する観点の数）。
"""
import torch
import torch.nn as nn


class SelfAttentiveEncoder(nn.Module):
    """tokens: (B, n) long。すべての文は n 単語に切りそろえてあり、パディングはない。
    戻り値: M (B, r, 2u) と A (B, r, n)。"""

    def __init__(self, vocab, emb=24, u=16, d_a=20, r=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, u, batch_first=True, bidirectional=True)
        self.ws1 = nn.Linear(2 * u, d_a, bias=False)
        self.ws2 = nn.Linear(d_a, r, bias=False)

    def forward(self, tokens):
        H, _ = self.lstm(self.emb(tokens))            # (B, n, 2u)
        score = self.ws2(torch.tanh(self.ws1(H)))     # (B, n, r)
        A = torch.softmax(score, dim=-1)
        A = A.transpose(1, 2)
        M = torch.bmm(A, H)
        return M, A


def penalty(A):
    """A (B, r, n) -> 罰則項のバッチ平均"""
    eye = torch.eye(A.size(1), device=A.device)
    return ((A @ A.transpose(1, 2) - eye) ** 2).sum((1, 2)).mean()


class Classifier(nn.Module):
    """(B, n) -> クラスのロジット (B, n_class) と罰則項"""

    def __init__(self, vocab, n_class, r=4, u=16):
        super().__init__()
        self.enc = SelfAttentiveEncoder(vocab, u=u, r=r)
        self.fc = nn.Sequential(nn.Linear(r * 2 * u, 64), nn.ReLU(), nn.Linear(64, n_class))

    def forward(self, tokens):
        M, A = self.enc(tokens)
        return self.fc(M.flatten(1)), penalty(A)
