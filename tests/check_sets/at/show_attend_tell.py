"""Image captioning with visual attention (Xu et al.), decoder part."""
import torch
from torch import nn


class VisualAttention(nn.Module):
    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super().__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)

    def forward(self, encoder_out, decoder_hidden):
        """encoder_out (B, pixels, E), decoder_hidden (B, D)
        -> context (B, E), alpha (B, pixels)"""
        att1 = self.encoder_att(encoder_out)
        att2 = self.decoder_att(decoder_hidden)
        att = self.full_att(torch.tanh(att1 + att2.unsqueeze(1))).squeeze(2)
        alpha = torch.softmax(att, dim=1)
        return (encoder_out * alpha.unsqueeze(2)).sum(dim=1), alpha


class CaptionDecoder(nn.Module):
    """LSTM that looks at the picture at each step (soft attention, gated by beta)."""

    def __init__(self, vocab, attention_dim=64, embed_dim=64, decoder_dim=64, encoder_dim=128, dropout=0.5):
        super().__init__()
        self.attention = VisualAttention(encoder_dim, decoder_dim, attention_dim)
        self.embedding = nn.Embedding(vocab, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self.cell = nn.LSTMCell(embed_dim + encoder_dim, decoder_dim)
        self.init_h = nn.Linear(encoder_dim, decoder_dim)
        self.init_c = nn.Linear(encoder_dim, decoder_dim)
        self.f_beta = nn.Linear(decoder_dim, encoder_dim)
        self.fc = nn.Linear(decoder_dim, vocab)
        self.vocab = vocab

    def forward(self, feats, captions, lengths):
        """feats (B, H, W, E); captions (B, T) starting with <start>; lengths (B,)"""
        B, E = feats.size(0), feats.size(-1)
        feats = feats.view(B, -1, E)
        lengths, order = lengths.sort(descending=True)
        feats, captions = feats[order], captions[order]
        emb = self.embedding(captions)
        mean = feats.mean(1)
        h, c = self.init_h(mean), self.init_c(mean)

        steps = (lengths - 1).tolist()          # nothing is predicted after <end>
        scores = feats.new_zeros(B, max(steps), self.vocab)
        alphas = feats.new_zeros(B, max(steps), feats.size(1))
        for t in range(max(steps)):
            n = sum(s > t for s in steps)
            ctx, alpha = self.attention(feats[:n], h[:n])
            ctx = torch.sigmoid(self.f_beta(h[:n])) * ctx
            h, c = self.cell(torch.cat([emb[:n, t], ctx], 1), (h[:n], c[:n]))
            scores[:n, t] = self.fc(self.dropout(h))
            alphas[:n, t] = alpha
        return scores, captions, steps, alphas, order

    @torch.no_grad()
    def greedy(self, feats, start, end, max_len=20):
        feats = feats.reshape(1, -1, feats.size(-1))
        h, c = self.init_h(feats.mean(1)), self.init_c(feats.mean(1))
        word, words, maps = start, [], []
        for _ in range(max_len):
            ctx, alpha = self.attention(feats, h)
            ctx = torch.sigmoid(self.f_beta(h)) * ctx
            e = self.embedding(torch.tensor([word], device=feats.device))
            h, c = self.cell(torch.cat([e, ctx], 1), (h, c))
            word = int(self.fc(h).argmax())
            if word == end:
                break
            words.append(word)
            maps.append(alpha[0])
        return words, maps


def doubly_stochastic(alphas, weight=1.0):
    return weight * ((1.0 - alphas.sum(dim=1)) ** 2).mean()
