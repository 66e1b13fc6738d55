"""Menu translation (fr -> en), GRU decoder with Luong global attention.

score = 'general':  h_t^T W_a s_j          (no scaling, as in the paper)
c_t   = sum_j a_tj s_j
h~_t  = tanh(W_c [c_t ; h_t])               (attentional vector)
Input feeding is on: h~_{t-1} is concatenated to the next embedding.
"""
import torch
from torch import nn


class MenuDecoder(nn.Module):
    def __init__(self, vocab=50, emb=16, hidden=24, enc_hidden=20, dropout=0.2):
        super().__init__()
        self.hidden = hidden
        self.embedding = nn.Embedding(vocab, emb, padding_idx=0)
        self.rnn = nn.GRUCell(emb + hidden, hidden)
        self.bridge = nn.Linear(enc_hidden, hidden)
        self.W_a = nn.Linear(enc_hidden, hidden, bias=False)
        self.W_c = nn.Linear(enc_hidden + hidden, hidden, bias=False)
        self.out = nn.Linear(hidden, vocab)
        self.dropout = nn.Dropout(dropout)

    def attend(self, h, memory, keys, inside):
        """h: B x hidden, memory: B x S x enc_hidden, keys = W_a(memory), inside: B x S bool"""
        score = torch.bmm(keys, h.unsqueeze(2)).squeeze(2)
        score = score.masked_fill(~inside, float("-inf"))
        a = score.softmax(dim=1)                       # B x S, over the source words
        context = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
        return context, a

    def forward(self, tokens, memory, src_lens):
        """Teacher forcing.

        tokens   B x T  gold prefix, starting with <bos>
        memory   B x S x enc_hidden, encoder outputs
        src_lens B, number of source words (>= 1)
        returns  logits B x T x vocab, attention B x T x S
        """
        B, T = tokens.shape
        S = memory.size(1)
        inside = torch.arange(S, device=memory.device)[None, :] < src_lens[:, None]
        summed = memory.masked_fill(~inside.unsqueeze(-1), 0.0).sum(1)
        h = torch.tanh(self.bridge(summed / src_lens.unsqueeze(1)))
        feed = memory.new_zeros(B, self.hidden)
        keys = self.W_a(memory)
        emb = self.dropout(self.embedding(tokens))

        logits, maps = [], []
        for t in range(T):
            h = self.rnn(torch.cat([emb[:, t], feed], dim=-1), h)
            context, a = self.attend(h, memory, keys, inside)
            feed = torch.tanh(self.W_c(torch.cat([context, h], dim=-1)))
            logits.append(self.out(self.dropout(feed)))
            maps.append(a)
        return torch.stack(logits, 1), torch.stack(maps, 1)
