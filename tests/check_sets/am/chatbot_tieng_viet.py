"""Chatbot tiếng Việt: GRU seq2seq + chú ý Luong (điểm 'general')."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = 0, 1, 2


class BoMaHoa(nn.Module):
    """bộ mã hóa hai chiều, cộng hai chiều lại"""

    def __init__(self, so_tu, an):
        super().__init__()
        self.nhung = nn.Embedding(so_tu, an, padding_idx=PAD)
        self.gru = nn.GRU(an, an, bidirectional=True, batch_first=True)

    def forward(self, cau, do_dai):
        x = nn.utils.rnn.pack_padded_sequence(self.nhung(cau), do_dai.cpu(), batch_first=True,
                                              enforce_sorted=False)
        ra, h = self.gru(x)
        ra, _ = nn.utils.rnn.pad_packed_sequence(ra, batch_first=True, total_length=cau.size(1))
        n = ra.size(-1) // 2
        return ra[..., :n] + ra[..., n:], h.sum(0, keepdim=True)


class ChuY(nn.Module):
    """Luong: diem(h_t, h_s) = h_t^T W h_s.  mat_na = True tại từ thật (không phải PAD)."""

    def __init__(self, an):
        super().__init__()
        self.W = nn.Linear(an, an, bias=False)

    def forward(self, h_t, h_s, mat_na):
        # h_t: (B, 1, A)   h_s: (B, S, A)   mat_na: (B, S)
        diem = torch.bmm(h_t, self.W(h_s).transpose(1, 2))
        diem = diem.masked_fill(mat_na.unsqueeze(1).logical_not(), -1e9)
        trong_so = F.softmax(diem, dim=2)
        return torch.bmm(trong_so, h_s), trong_so.squeeze(1)


class GiaiMa(nn.Module):
    def __init__(self, so_tu, an, bo_qua=0.1):
        super().__init__()
        self.nhung = nn.Embedding(so_tu, an, padding_idx=PAD)
        self.bo_qua = nn.Dropout(bo_qua)
        self.gru = nn.GRU(an, an, batch_first=True)
        self.chu_y = ChuY(an)
        self.ghep = nn.Linear(2 * an, an)
        self.ra = nn.Linear(an, so_tu)

    def forward(self, tu, h, h_s, mat_na):
        x = self.bo_qua(self.nhung(tu)).unsqueeze(1)
        h_t, h = self.gru(x, h)
        ngu_canh, trong_so = self.chu_y(h_t, h_s, mat_na)
        h_nga = torch.tanh(self.ghep(torch.cat([ngu_canh, h_t], dim=2))).squeeze(1)
        return self.ra(h_nga), h, trong_so


class Chatbot(nn.Module):
    def __init__(self, so_tu, an=64):
        super().__init__()
        self.ma = BoMaHoa(so_tu, an)
        self.giai = GiaiMa(so_tu, an)

    def forward(self, hoi, do_dai, dap, ti_le=0.5):
        h_s, h = self.ma(hoi, do_dai)
        mat_na = hoi != PAD
        tu = torch.full_like(dap[:, 0], BOS)
        logit = []
        for t in range(dap.size(1)):
            o, h, _ = self.giai(tu, h, h_s, mat_na)
            logit.append(o)
            tu = dap[:, t] if random.random() < ti_le else o.argmax(-1)
        return torch.stack(logit, 1)

    def mat_mat(self, logit, dap):
        return F.cross_entropy(logit.flatten(0, 1), dap.flatten(), ignore_index=PAD)

    @torch.no_grad()
    def tra_loi(self, hoi, toi_da=20):
        h_s, h = self.ma(hoi, torch.tensor([hoi.size(1)]))
        tu, kq = torch.tensor([BOS]), []
        for _ in range(toi_da):
            o, h, _ = self.giai(tu, h, h_s, hoi != PAD)
            tu = o.argmax(-1)
            if tu.item() == EOS:
                break
            kq.append(tu.item())
        return kq
