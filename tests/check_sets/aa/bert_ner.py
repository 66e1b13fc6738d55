"""A small BERT-style tagger for named entities (CoNLL-2003 labels)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

LABELS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]


class SelfAttention(nn.Module):
    def __init__(self, hidden, heads, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.head_dim = hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask):
        q = self.split(self.query(hidden_states))
        k = self.split(self.key(hidden_states))
        v = self.split(self.value(hidden_states))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.head_dim ** 0.5
        scores = scores.masked_fill(attention_mask == 0, -1e9)
        probs = self.dropout(F.softmax(scores, dim=-1))
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).reshape(hidden_states.shape)
        return self.dense(ctx)


class BertLayer(nn.Module):
    def __init__(self, hidden, heads, inner):
        super().__init__()
        self.attention = SelfAttention(hidden, heads)
        self.ln1 = nn.LayerNorm(hidden, eps=1e-12)
        self.inter = nn.Linear(hidden, inner)
        self.out = nn.Linear(inner, hidden)
        self.ln2 = nn.LayerNorm(hidden, eps=1e-12)

    def forward(self, x, mask):
        x = self.ln1(x + self.attention(x, mask))
        return self.ln2(x + self.out(F.gelu(self.inter(x))))


class TokenClassifier(nn.Module):
    """input_ids [B, L], attention_mask [B, L] (1 = token, 0 = padding) -> logits [B, L, n_labels]"""

    def __init__(self, vocab_size=50, hidden=24, heads=4, layers=2, max_len=32, n_labels=len(LABELS)):
        super().__init__()
        self.word = nn.Embedding(vocab_size, hidden, padding_idx=0)
        self.position = nn.Embedding(max_len, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(hidden, heads, 2 * hidden) for _ in range(layers))
        self.classifier = nn.Linear(hidden, n_labels)

    def extend(self, attention_mask):
        # padding must not be looked at: [B, L] -> broadcastable to [B, H, L, L]
        return attention_mask.unsqueeze(1).unsqueeze(3)

    def forward(self, input_ids, attention_mask=None):
        if attention_mask is None:
            attention_mask = (input_ids != 0).long()
        mask = self.extend(attention_mask)
        pos = torch.arange(input_ids.size(1), device=input_ids.device)
        x = self.norm(self.word(input_ids) + self.position(pos)[None])
        for layer in self.layers:
            x = layer(x, mask)
        return self.classifier(x)
