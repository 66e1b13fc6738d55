import torch
from torch import nn


class VisualAttention(nn.Module):
    """Attention douce sur les régions de l'image (Xu et al. 2015).

    e_i = w^T ReLU(W_v v_i + W_h h + b)
    """

    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super(VisualAttention, self).__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)
        self.relu = nn.ReLU()
        self.softmax = nn.Softmax(dim=1)  # somme à 1 sur les régions

    def forward(self, encoder_out, decoder_hidden):
        att1 = self.encoder_att(encoder_out)          # (batch, num_pixels, attention_dim)
        att2 = self.decoder_att(decoder_hidden)       # (batch, attention_dim)
        att = self.full_att(self.relu(att1 + att2.unsqueeze(1))).squeeze(2)  # (batch, num_pixels)
        alpha = self.softmax(att)
        contexte = (encoder_out * alpha.unsqueeze(2)).sum(dim=1)
        return contexte, alpha


class CaptionDecoder(nn.Module):
    def __init__(self, vocab_size, embed_dim=64, encoder_dim=128, decoder_dim=96, attention_dim=80,
                 dropout=0.5):
        super(CaptionDecoder, self).__init__()
        self.attention = VisualAttention(encoder_dim, decoder_dim, attention_dim)
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.dropout = nn.Dropout(p=dropout)
        self.decode_step = nn.LSTMCell(embed_dim + encoder_dim, decoder_dim)
        self.init_h = nn.Linear(encoder_dim, decoder_dim)
        self.init_c = nn.Linear(encoder_dim, decoder_dim)
        self.f_beta = nn.Linear(decoder_dim, encoder_dim)  # porte sigmoïde
        self.fc = nn.Linear(decoder_dim, vocab_size)

    def init_state(self, encoder_out):
        moyenne = encoder_out.mean(dim=1)
        return self.init_h(moyenne), self.init_c(moyenne)

    def step(self, mots, etat, encoder_out):
        """Un pas : ``etat`` est le couple (h, c) du LSTM."""
        h, c = etat
        contexte, alpha = self.attention(encoder_out, h)
        contexte = torch.sigmoid(self.f_beta(h)) * contexte
        h, c = self.decode_step(torch.cat([self.embedding(mots), contexte], dim=1), (h, c))
        return self.fc(self.dropout(h)), (h, c), alpha

    def forward(self, image, captions, longueurs):
        """image (B, h, w, C); captions (B, T); longueurs (B,) — teacher forcing."""
        B, C = image.size(0), image.size(-1)
        encoder_out = image.reshape(B, -1, C)
        # tri décroissant : à l'instant t seules les premières phrases sont encore actives
        longueurs, ordre = longueurs.sort(descending=True)
        encoder_out, captions = encoder_out[ordre], captions[ordre]
        h, c = self.init_state(encoder_out)
        pas = (longueurs - 1).tolist()
        logits = encoder_out.new_zeros(B, max(pas), self.fc.out_features)
        alphas = encoder_out.new_zeros(B, max(pas), encoder_out.size(1))
        for t in range(max(pas)):
            n = sum(l > t for l in pas)
            y, (h, c), a = self.step(captions[:n, t], (h[:n], c[:n]), encoder_out[:n])
            logits[:n, t] = y
            alphas[:n, t] = a
        return logits, alphas, ordre
