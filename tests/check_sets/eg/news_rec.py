"""News recommendation, user encoder in the manner of NRMS (multi-head self attention, then pooling)."""
import torch
import torch.nn as nn


class MultiHeadSelfAttention(nn.Module):
    """
    clicked   (B, N, d) vectors of the N clicked news
    click_mask (B, N)   1.0 for a click, 0.0 for an empty slot; each user has at least one click
    Empty slots get no attention, the weights of the clicks sum to one. Output (B, N, d).
    """

    def __init__(self, d, n_head):
        super().__init__()
        self.n_head, self.d_head = n_head, d // n_head
        self.W_Q = nn.Linear(d, d)
        self.W_K = nn.Linear(d, d)
        self.W_V = nn.Linear(d, d)

    def forward(self, clicked, click_mask):
        B, N, d = clicked.shape
        q = self.W_Q(clicked).view(B, N, self.n_head, self.d_head).transpose(1, 2)
        k = self.W_K(clicked).view(B, N, self.n_head, self.d_head).transpose(1, 2)
        v = self.W_V(clicked).view(B, N, self.n_head, self.d_head).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.d_head ** 0.5
        alpha = torch.softmax(scores, dim=-1)
        alpha = alpha * click_mask.view(B, 1, 1, N)
        context = torch.matmul(alpha, v)
        return context.reshape(B, N, d)


class UserEncoder(nn.Module):
    """clicked (B, N, d), click_mask (B, N) -> user vector (B, d)"""

    def __init__(self, d=32, n_head=4, hidden=16):
        super().__init__()
        self.self_att = MultiHeadSelfAttention(d, n_head)
        self.fc1 = nn.Linear(d, hidden)
        self.fc2 = nn.Linear(hidden, 1, bias=False)

    def forward(self, clicked, click_mask):
        h = self.self_att(clicked, click_mask)
        e = self.fc2(torch.tanh(self.fc1(h))).squeeze(-1)
        e = e.masked_fill(click_mask == 0, float("-inf"))
        a = torch.softmax(e, dim=-1)
        return torch.bmm(a.unsqueeze(1), h).squeeze(1)


def click_score(user, candidates):
    """user (B, d), candidates (B, C, d) -> (B, C)"""
    return torch.bmm(candidates, user.unsqueeze(2)).squeeze(2)
