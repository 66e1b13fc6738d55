"""Cross reranker for support answers: a question token matrix looks at candidate answers."""
import torch
from torch import nn


def lengths_to_keep(lengths, size):
    """[B] -> [B, size], True on real tokens."""
    return torch.arange(size, device=lengths.device)[None] < lengths[:, None]


class AnswerReranker(nn.Module):
    """forward(question [B,Q,C], answers [B,N,A,C], answer_len [B,N]) -> logits [B,N].

    Every (question, answer) pair is its own sample in the attention; one answer
    never sees another one. Answers of length 0 are empty places in the list and
    get -inf.
    """

    def __init__(self, width: int, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.look = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, 1)

    def forward(self, question, answers, answer_len):
        B, N, A, C = answers.shape
        q = question.unsqueeze(1).expand(-1, N, -1, -1).flatten(0, 1)
        a = answers.flatten(0, 1)
        n = answer_len.flatten()
        keep = lengths_to_keep(n, A)
        # nn.MultiheadAttention wants True where a key is to be ignored;
        # an empty place shows its first token so that no NaN arises
        ignore = ~keep
        ignore[:, 0] &= n > 0
        got, _ = self.look(q, a, a, key_padding_mask=ignore, need_weights=False)
        h = self.norm(q + got).mean(dim=1)
        s = self.score(h).view(B, N)
        return s.masked_fill(answer_len == 0, float("-inf"))

    @torch.no_grad()
    def best(self, *inputs):
        was = self.training
        self.eval()
        top = self(*inputs).argmax(dim=-1)
        self.train(was)
        return top


def listwise_loss(logits, gold):
    return nn.functional.cross_entropy(logits, gold)
