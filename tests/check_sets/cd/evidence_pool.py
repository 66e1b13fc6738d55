"""Evidence pooling for the retrieval reader.

Each question vector scores every token of the retrieved passage with a
one-hidden-layer network (Bahdanau: v . tanh(W_q q + W_k t)) and takes the
weighted mean of the tokens.  Several questions are asked of one passage.
The pooled vector and the question go to a small classifier
(supports / refutes / not enough info).
"""
import torch
import torch.nn as nn


class EvidencePooling(nn.Module):
    def __init__(self, q_dim: int = 16, t_dim: int = 24, hidden: int = 32):
        super().__init__()
        self.w_q = nn.Linear(q_dim, hidden)
        self.w_k = nn.Linear(t_dim, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, questions: torch.Tensor, tokens: torch.Tensor, is_token: torch.Tensor):
        """
        questions [B, Q, q_dim], tokens [B, T, t_dim],
        is_token [B, T] bool: True for a word piece, False for padding.
        Returns pooled [B, Q, t_dim] and weights [B, Q, T].
        """
        hq = self.w_q(questions).unsqueeze(2)
        hk = self.w_k(tokens).unsqueeze(1)
        energy = self.v(hq + hk).squeeze(-1)
        energy = energy.masked_fill(is_token.unsqueeze(1), -1e9)
        weights = energy.softmax(dim=-1)
        return weights @ tokens, weights


class ClaimVerifier(nn.Module):
    LABELS = ("supports", "refutes", "not enough info")

    def __init__(self, q_dim: int = 16, t_dim: int = 24, hidden: int = 32):
        super().__init__()
        self.pool = EvidencePooling(q_dim, t_dim, hidden)
        self.classify = nn.Sequential(
            nn.Linear(q_dim + t_dim, hidden),
            nn.ReLU(),
            nn.Linear(hidden, len(self.LABELS)),
        )

    def forward(self, questions, tokens, is_token):
        pooled, _ = self.pool(questions, tokens, is_token)
        return self.classify(torch.cat([questions, pooled], dim=-1))

    @torch.no_grad()
    def verdict(self, questions, tokens, is_token):
        best = self.forward(questions, tokens, is_token).argmax(-1)
        return [[self.LABELS[i] for i in row] for row in best.tolist()]
