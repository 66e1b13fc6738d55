"""Show, Attend and Tell decoder step (soft attention), image captioning tutorial code."""
import torch
from torch import nn


class Attention(nn.Module):
    """
    encoder_out: (B, num_pixels, encoder_dim), decoder_hidden: (B, decoder_dim)
    score of pixel p = w . relu(A e_p + B h); softmax over the pixels.
    Returns the weighted encoding (B, encoder_dim) and alpha (B, num_pixels).
    """

    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super().__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)
        self.relu = nn.ReLU()
        self.softmax = nn.Softmax(dim=1)

    def forward(self, encoder_out, decoder_hidden):
        att1 = self.encoder_att(encoder_out)
        att2 = self.decoder_att(decoder_hidden)
        att = self.full_att(self.relu(att1 + att2.unsqueeze(1))).squeeze(2)
        alpha = self.softmax(att)
        attention_weighted_encoding = (encoder_out * alpha.unsqueeze(2)).sum(dim=1)
        return attention_weighted_encoding, alpha


class DecoderWithAttention(nn.Module):
    """image features (B, h, w, encoder_dim), captions (B, T) ids (teacher forcing), lengths (B,) sorted
    from long to short. Returns predictions (B, max(len) - 1, vocab) and alphas; steps after a caption's end are 0."""

    def __init__(self, attention_dim=16, embed_dim=16, decoder_dim=24, vocab_size=50, encoder_dim=20, dropout=0.5):
        super().__init__()
        self.vocab_size = vocab_size
        self.attention = Attention(encoder_dim, decoder_dim, attention_dim)
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.dropout = nn.Dropout(p=dropout)
        self.decode_step = nn.LSTMCell(embed_dim + encoder_dim, decoder_dim)
        self.init_h = nn.Linear(encoder_dim, decoder_dim)
        self.init_c = nn.Linear(encoder_dim, decoder_dim)
        self.f_beta = nn.Linear(decoder_dim, encoder_dim)
        self.fc = nn.Linear(decoder_dim, vocab_size)

    def forward(self, encoder_out, captions, lengths):
        B = encoder_out.size(0)
        encoder_out = encoder_out.view(B, -1, encoder_out.size(-1))
        emb = self.embedding(captions)
        mean = encoder_out.mean(dim=1)
        h, c = self.init_h(mean), self.init_c(mean)
        steps = [int(n) - 1 for n in lengths]
        predictions = encoder_out.new_zeros(B, max(steps), self.vocab_size)
        alphas = encoder_out.new_zeros(B, max(steps), encoder_out.size(1))
        for t in range(max(steps)):
            n = sum(s > t for s in steps)
            awe, alpha = self.attention(encoder_out[:n], h[:n])
            awe = torch.sigmoid(self.f_beta(h[:n])) * awe
            h, c = self.decode_step(torch.cat([emb[:n, t], awe], dim=1), (h[:n], c[:n]))
            predictions[:n, t] = self.fc(self.dropout(h))
            alphas[:n, t] = alpha
        return predictions, alphas
