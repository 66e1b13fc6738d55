"""Decoder step of the spoken-address normaliser ("elm street four b" -> "4B Elm St").

Global attention of Luong et al. (2015), "general" score, with input feeding: the
attentional vector of the last step is fed to the LSTM together with the embedding.
The attentional vector of Eq. 5 also goes to the output layer.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LuongDecoderStep(nn.Module):
    def __init__(self, vocab=60, emb=12, hid=16, enc=20):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.LSTMCell(emb + hid, hid)
        self.W_a = nn.Linear(enc, hid, bias=False)
        self.W_c = nn.Linear(enc + hid, hid, bias=False)
        self.W_s = nn.Linear(hid, vocab)
        self.hid = hid

    def init_state(self, batch):
        zeros = self.W_s.weight.new_zeros(batch, self.hid)
        return zeros, (zeros, zeros)

    def attend(self, h, enc_out, enc_len):
        scores = torch.bmm(self.W_a(enc_out), h.unsqueeze(2)).squeeze(2)
        if enc_len is not None:
            steps = torch.arange(enc_out.size(1), device=enc_out.device)
            scores = scores.masked_fill(steps[None, :] >= enc_len[:, None], float("-inf"))
        align = F.softmax(scores, dim=1)
        context = torch.bmm(align.unsqueeze(1), enc_out).squeeze(1)
        return context, align

    def forward(self, token, enc_out, state=None, enc_len=None):
        """token [B], enc_out [B, S, enc] -> log-probs [B, vocab], state, alignment [B, S]"""
        if state is None:
            state = self.init_state(token.size(0))
        feed, lstm_state = state
        h, c = self.rnn(torch.cat([self.embedding(token), feed], dim=1), lstm_state)
        context, align = self.attend(h, enc_out, enc_len)
        attentional = self.W_c(torch.cat([context, h], dim=1))
        logp = F.log_softmax(self.W_s(attentional), dim=1)
        return logp, (attentional, (h, c)), align


if __name__ == "__main__":
    torch.manual_seed(0)
    step = LuongDecoderStep()
    memory = torch.randn(2, 7, 20)
    tok, state = torch.tensor([1, 1]), None
    for _ in range(4):
        logp, state, align = step(tok, memory, state, torch.tensor([7, 5]))
        tok = logp.argmax(1)
    print(tok, align)
