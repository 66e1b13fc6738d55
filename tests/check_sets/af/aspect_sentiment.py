import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class AspectAttention(nn.Module):
    """Concat (additive) attention of an aspect vector over the BiLSTM states,

        u_t = v^T tanh(W_h h_t + W_a a)
        alpha = softmax(u)   over the words of the sentence
    """

    def __init__(self, hidden, aspect_dim, attn_dim=None):
        super().__init__()
        attn_dim = attn_dim or hidden
        self.W_h = nn.Linear(hidden, attn_dim, bias=False)
        self.W_a = nn.Linear(aspect_dim, attn_dim, bias=True)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, states, aspect, mask):
        """
        states: [batch, len, hidden]
        aspect: [batch, aspect_dim]
        mask:   [batch, len], 1 for words and 0 for padding
        """
        mix = self.W_h(states) + self.W_a(aspect).unsqueeze(1)
        u = self.v(mix).squeeze(-1)
        u = u.masked_fill(mask.bool(), -1e9)
        alpha = torch.softmax(u, dim=1)
        return torch.bmm(alpha.unsqueeze(1), states).squeeze(1), alpha


class ATAE(nn.Module):
    def __init__(self, vocab, n_aspects, emb=50, hidden=64, n_class=3, p=0.3):
        super().__init__()
        self.word = nn.Embedding(vocab, emb, padding_idx=0)
        self.aspect = nn.Embedding(n_aspects, emb)
        self.lstm = nn.LSTM(2 * emb, hidden // 2, batch_first=True, bidirectional=True)
        self.attn = AspectAttention(hidden, emb)
        self.W_p = nn.Linear(hidden, hidden, bias=False)
        self.W_x = nn.Linear(hidden, hidden, bias=False)
        self.drop = nn.Dropout(p)
        self.out = nn.Linear(hidden, n_class)

    def forward(self, tokens, aspect_id):
        mask = (tokens != 0).long()
        lengths = mask.sum(1)
        a = self.aspect(aspect_id)
        x = torch.cat([self.word(tokens), a.unsqueeze(1).expand(-1, tokens.size(1), -1)], dim=-1)
        packed = pack_padded_sequence(self.drop(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, (h_n, _) = self.lstm(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=tokens.size(1))
        r, alpha = self.attn(states, a, mask)
        last = torch.cat([h_n[0], h_n[1]], dim=-1)
        h = torch.tanh(self.W_p(r) + self.W_x(last))
        return self.out(self.drop(h)), alpha


def accuracy(logits, gold):
    return (logits.argmax(-1) == gold).float().mean().item()
