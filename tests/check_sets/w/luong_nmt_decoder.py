import torch
import torch.nn as nn
import torch.nn.functional as F


# Luong et al. 2015, input feeding, 'general' score
class LuongAttnDecoder(nn.Module):
    def __init__(self, vocab_size, emb_size, hidden_size, pad_idx=0):
        super(LuongAttnDecoder, self).__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(vocab_size, emb_size, padding_idx=pad_idx)
        self.cell = nn.LSTMCell(emb_size + hidden_size, hidden_size)
        self.W_a = nn.Linear(hidden_size, hidden_size, bias=False)
        self.W_c = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.out = nn.Linear(hidden_size, vocab_size)

    def score(self, h_t, encoder_outputs):
        # h_t: [batch, hidden]   encoder_outputs: [batch, src_len, hidden]
        return torch.bmm(self.W_a(encoder_outputs), h_t.unsqueeze(2)).squeeze(2)

    def step(self, y, feed, state, encoder_outputs, src_mask):
        h, c = self.cell(torch.cat([self.embedding(y), feed], dim=1), state)
        energies = self.score(h, encoder_outputs)
        energies = energies.masked_fill(src_mask == 0, float('-inf'))
        alpha = F.softmax(energies, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), encoder_outputs).squeeze(1)
        h_tilde = torch.tanh(self.W_c(torch.cat([context, h], dim=1)))
        return self.out(h_tilde), h_tilde, (h, c), alpha

    def forward(self, tgt, encoder_outputs, src_mask):
        """
        tgt: [batch, tgt_len] token ids (teacher forcing)
        encoder_outputs: [batch, src_len, hidden]
        src_mask: [batch, src_len], 1 = word, 0 = pad
        """
        B, T = tgt.shape
        feed = encoder_outputs.new_zeros(B, self.hidden_size)
        m = src_mask.to(encoder_outputs.dtype).unsqueeze(2)
        state = ((encoder_outputs * m).sum(1) / m.sum(1), torch.zeros_like(feed))
        logits, attns = [], []
        for t in range(T):
            logit, feed, state, alpha = self.step(tgt[:, t], feed, state, encoder_outputs, src_mask)
            logits.append(logit)
            attns.append(alpha)
        return torch.stack(logits, 1), torch.stack(attns, 1)
