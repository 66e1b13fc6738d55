# Listen, Attend and Spell: attention and speller (homework 4 part 2).
import torch
import torch.nn as nn
import torch.nn.functional as F

SOS, EOS = 0, 1


class AdditiveAttention(nn.Module):
    """Bahdanau attention.

    decoder_state: (B, dec), encoder_out: (B, T, enc), encoder_lens: (B,)
    returns context (B, enc) and weights (B, T); frames behind the end get weight 0
    """

    def __init__(self, enc_dim, dec_dim, att_dim):
        super().__init__()
        self.key_proj = nn.Linear(enc_dim, att_dim, bias=False)
        self.query_proj = nn.Linear(dec_dim, att_dim)
        self.score = nn.Linear(att_dim, 1, bias=False)
        self.keys = None
        self.pad = None

    def set_memory(self, encoder_out, encoder_lens):
        T = encoder_out.size(1)
        self.memory = encoder_out
        self.keys = self.key_proj(encoder_out)
        frames = torch.arange(T, device=encoder_out.device)
        self.pad = frames.unsqueeze(0) >= encoder_lens.unsqueeze(1)

    def forward(self, decoder_state):
        query = self.query_proj(decoder_state).unsqueeze(1)
        energy = self.score(query + self.keys).squeeze(2)
        energy = energy.masked_fill(self.pad, float("-inf"))
        weights = F.softmax(energy, dim=1)
        context = torch.bmm(weights.unsqueeze(1), self.memory).squeeze(1)
        return context, weights


class Speller(nn.Module):
    def __init__(self, vocab=30, emb=16, enc=24, dec=32, att=20):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn1 = nn.LSTMCell(emb + enc, dec)
        self.rnn2 = nn.LSTMCell(dec, dec)
        self.attention = AdditiveAttention(enc, dec, att)
        self.char = nn.Sequential(nn.Linear(dec + enc, emb), nn.Tanh())
        self.proj = nn.Linear(emb, vocab)
        self.proj.weight = self.embedding.weight
        self.dec = dec

    def forward(self, encoder_out, encoder_lens, targets=None, max_len=20, teacher_forcing=1.0):
        """targets (B, L) without <sos>.  Returns logits (B, L, vocab) and the attention
        plot of the batch, (B, L, T)."""
        B = encoder_out.size(0)
        dev = encoder_out.device
        self.attention.set_memory(encoder_out, encoder_lens)
        h1, c1, h2, c2 = (encoder_out.new_zeros(B, self.dec) for _ in range(4))
        context, _ = self.attention(h2)
        token = torch.full((B,), SOS, dtype=torch.long, device=dev)
        steps = max_len if targets is None else targets.size(1)
        logits, plot = [], []
        for t in range(steps):
            h1, c1 = self.rnn1(torch.cat([self.embedding(token), context], 1), (h1, c1))
            h2, c2 = self.rnn2(h1, (h2, c2))
            context, w = self.attention(h2)
            out = self.proj(self.char(torch.cat([h2, context], 1)))
            logits.append(out)
            plot.append(w)
            if targets is not None and (teacher_forcing >= 1.0 or torch.rand(1).item() < teacher_forcing):
                token = targets[:, t]
            else:
                token = out.argmax(1)
        return torch.stack(logits, 1), torch.stack(plot, 1)
