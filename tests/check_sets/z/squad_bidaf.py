"""BiDAF attention layer for SQuAD (starter code of a course project)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def masked_softmax(logits, mask, dim=-1):
    """Softmax along `dim` over the entries where mask is 1 (mask: float or bool, broadcastable)."""
    mask = mask.type(torch.float32)
    masked_logits = mask * logits + (1 - mask) * -1e30
    return F.softmax(masked_logits, dim)


class HighwayEncoder(nn.Module):
    def __init__(self, num_layers, hidden_size):
        super().__init__()
        self.transforms = nn.ModuleList([nn.Linear(hidden_size, hidden_size) for _ in range(num_layers)])
        self.gates = nn.ModuleList([nn.Linear(hidden_size, hidden_size) for _ in range(num_layers)])

    def forward(self, x):
        for gate, transform in zip(self.gates, self.transforms):
            g = torch.sigmoid(gate(x))
            x = g * F.relu(transform(x)) + (1 - g) * x
        return x


class BiDAFAttention(nn.Module):
    """Bidirectional attention: context-to-query and query-to-context.

    The similarity of a context word c and a question word q is w^T [c; q; c * q].
    c_mask (B, c_len) and q_mask (B, q_len) are 1 for words and 0 for padding.
    Output: (B, c_len, 4 * hidden) = [c; a; c * a; c * b].
    """

    def __init__(self, hidden_size, drop_prob=0.1):
        super().__init__()
        self.drop_prob = drop_prob
        self.c_weight = nn.Parameter(torch.zeros(hidden_size, 1))
        self.q_weight = nn.Parameter(torch.zeros(hidden_size, 1))
        self.cq_weight = nn.Parameter(torch.zeros(1, 1, hidden_size))
        for weight in (self.c_weight, self.q_weight, self.cq_weight):
            nn.init.xavier_uniform_(weight)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, c, q, c_mask, q_mask):
        batch_size, c_len, _ = c.size()
        q_len = q.size(1)
        s = self.get_similarity_matrix(c, q)
        c_mask = c_mask.view(batch_size, c_len)
        q_mask = q_mask.view(batch_size, 1, q_len)

        s1 = masked_softmax(s, q_mask, dim=1)
        s2 = masked_softmax(s.masked_fill(q_mask == 0, -1e30).max(dim=2).values, c_mask, dim=1)

        a = torch.bmm(s1, q)
        b = torch.bmm(s2.unsqueeze(1), c).expand(-1, c_len, -1)
        return torch.cat([c, a, c * a, c * b], dim=2)

    def get_similarity_matrix(self, c, q):
        c_len, q_len = c.size(1), q.size(1)
        c = F.dropout(c, self.drop_prob, self.training)
        q = F.dropout(q, self.drop_prob, self.training)
        s0 = torch.matmul(c, self.c_weight).expand([-1, -1, q_len])
        s1 = torch.matmul(q, self.q_weight).transpose(1, 2).expand([-1, c_len, -1])
        s2 = torch.matmul(c * self.cq_weight, q.transpose(1, 2))
        return s0 + s1 + s2 + self.bias


class BiDAFOutput(nn.Module):
    def __init__(self, hidden_size, drop_prob=0.1):
        super().__init__()
        self.att = nn.Linear(4 * hidden_size, 1)
        self.highway = HighwayEncoder(2, 4 * hidden_size)
        self.end = nn.Linear(4 * hidden_size, 1)
        self.drop = nn.Dropout(drop_prob)

    def forward(self, att, c_mask):
        p1 = masked_softmax(self.att(self.drop(att)).squeeze(-1), c_mask)
        p2 = masked_softmax(self.end(self.highway(att)).squeeze(-1), c_mask)
        return p1, p2
