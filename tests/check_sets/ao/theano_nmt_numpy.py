'''
Port of our old Theano NMT (dl4mt style "gru_cond") decoder to NumPy, so that the
2015 .npz checkpoints can still be run.  Everything is time-major:

   ctx   : [Tx, n_samples, 2*dim]     annotations of the encoder
   ctxm  : [Tx, n_samples]            1. for words, 0. for padding
   h     : [n_samples, dim]
'''
import numpy as np


def _p(pp, name):
    return '%s_%s' % (pp, name)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def gru(x_, xx_, h, U, Ux, dim):
    g = sigmoid(np.dot(h, U) + x_)
    r, u = g[:, :dim], g[:, dim:]
    hp = np.tanh(np.dot(h, Ux) * r + xx_)
    return u * h + (1. - u) * hp


def project_context(tparams, ctx, prefix='decoder'):
    """done once for each sentence"""
    return np.dot(ctx, tparams[_p(prefix, 'Wc_att')]) + tparams[_p(prefix, 'b_att')]


def att_step(tparams, h, ctx, pctx, ctxm=None, prefix='decoder'):
    """one look at the source; returns weighted context and alpha [Tx, n_samples]"""
    pstate = np.dot(h, tparams[_p(prefix, 'W_comb_att')])
    e = np.tanh(pctx + pstate[None, :, :])
    e = np.dot(e, tparams[_p(prefix, 'U_att')]) + tparams[_p(prefix, 'c_tt')]
    e = e.reshape(e.shape[0], e.shape[1])
    alpha = np.exp(e - e.max(axis=0, keepdims=True))
    if ctxm is not None:
        alpha = alpha * ctxm
    alpha = alpha / alpha.sum(0, keepdims=True)
    ctx_ = (ctx * alpha[:, :, None]).sum(0)
    return ctx_, alpha


def gru_cond_step(tparams, h, y_emb, ctx, pctx, ctxm, prefix='decoder'):
    P = lambda n: tparams[_p(prefix, n)]
    dim = P('Ux').shape[1]
    h1 = gru(np.dot(y_emb, P('W')) + P('b'),
             np.dot(y_emb, P('Wx')) + P('bx'), h, P('U'), P('Ux'), dim)
    c, alpha = att_step(tparams, h1, ctx, pctx, ctxm, prefix)
    h2 = gru(np.dot(c, P('Wc')) + P('b_nl'),
             np.dot(c, P('Wcx')) + P('bx_nl'), h1, P('U_nl'), P('Ux_nl'), dim)
    return h2, c, alpha


def init_state(tparams, ctx, ctxm):
    mean = (ctx * ctxm[:, :, None]).sum(0) / ctxm.sum(0)[:, None]
    return np.tanh(np.dot(mean, tparams['ff_state_W']) + tparams['ff_state_b'])


def greedy(tparams, ctx, ctxm, maxlen=50, eos=0):
    pctx = project_context(tparams, ctx)
    h = init_state(tparams, ctx, ctxm)
    n = h.shape[0]
    emb = tparams['Wemb_dec']
    y_emb = np.zeros((n, emb.shape[1]))
    done = np.zeros(n, dtype=bool)
    words, aligns = [], []
    for _ in range(maxlen):
        h, c, alpha = gru_cond_step(tparams, h, y_emb, ctx, pctx, ctxm)
        logit = np.tanh(np.dot(h, tparams['ff_logit_lstm_W'])
                        + np.dot(y_emb, tparams['ff_logit_prev_W'])
                        + np.dot(c, tparams['ff_logit_ctx_W']))
        w = np.dot(logit, tparams['ff_logit_W']).argmax(1)
        w = np.where(done, eos, w)
        words.append(w)
        aligns.append(alpha)
        done |= w == eos
        if done.all():
            break
        y_emb = emb[w]
    return np.array(words), np.array(aligns)
