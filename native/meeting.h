// One block of keys against one block of queries, on the way back: weights and gradients of scores, tile by tile.
// Tiles lie with keys down and queries across, so that what a task sums for its keys stays with the task.
#pragma once
#include "blocks.h"
#include "drop.h"

namespace overt::OVERT_LEVEL {

// Whole panels and whole groups of rows at every level, and small enough that all of a task stays in the L2 cache.
constexpr int kQueryBlock = 192;
constexpr int kMostKeys = 264;
// Rows of a tile lie this far apart.
constexpr int kStep = kQueryBlock + 16;

// How a call is cut into tasks, one for each block of keys of each key head.  Depends on shapes only.
template <class Acc> struct Way {
  const Problem& p;
  Index heads;  // query heads that share a key head, and with it the rows of a task
  Index rows;   // of a key head
  Index sets;   // key heads
  Index query_blocks, key_blocks, tasks;
  int keys;     // of a task
  Index wide_D, wide_E;
  bool sinks;

  Way(const Problem& p, bool sinks) : p(p), keys(kMostKeys), sinks(sinks) {
    heads = p.H / p.G;
    rows = heads * p.T;
    sets = p.B * p.G;
    query_blocks = ceil_div(rows, kQueryBlock);
    // Smaller blocks where there would be little to share out.
    while (keys > 48 && sets * ceil_div(p.S, keys) < 16) keys /= 2;
    // Of about the same size each.
    key_blocks = larger<Index>(1, ceil_div(p.S, keys));
    keys = int(round_up(ceil_div(larger<Index>(1, p.S), key_blocks), kRows));
    key_blocks = larger<Index>(1, ceil_div(p.S, keys));
    tasks = sets * key_blocks;
    wide_D = round_up(p.D, kLanes<Acc>);
    wide_E = round_up(p.E, kLanes<Acc>);
  }
};

// out += weights · rows for M rows of out and W vectors of columns.  The weights lie in a tile along its rows or, if
// `across`, along its columns.
template <class Acc, bool across, int M, int W>
OVERT_INLINE void add_columns(const Acc* weights, const Acc* rows, int count, Acc* out, Index width) {
  constexpr int lanes = kLanes<Acc>;
  Lane<Acc> sums[M][W];
  OVERT_UNROLL
  for (int r = 0; r < M; ++r) {
    OVERT_UNROLL
    for (int c = 0; c < W; ++c) sums[r][c] = load(out + r * width + c * lanes);
  }
#pragma GCC unroll 2
  for (int s = 0; s < count; ++s) {
    Lane<Acc> row[W];
    OVERT_UNROLL
    for (int c = 0; c < W; ++c) row[c] = load(rows + c * lanes);
    OVERT_UNROLL
    for (int r = 0; r < M; ++r) {
      Lane<Acc> weight = all(across ? weights[s * kStep + r] : weights[r * kStep + s]);
      OVERT_UNROLL
      for (int c = 0; c < W; ++c) sums[r][c] += weight * row[c];
    }
    rows += width;
  }
  OVERT_UNROLL
  for (int r = 0; r < M; ++r) {
    OVERT_UNROLL
    for (int c = 0; c < W; ++c) store(out + r * width + c * lanes, sums[r][c]);
  }
}

constexpr int columns_for(int M) {
  int W = 8;
  while (M * W > 2 * kRows) W /= 2;
  return W;
}

template <class Acc, bool across, int M, int W = columns_for(M)>
OVERT_INLINE void add_from(Index column, const Acc* weights, const Acc* rows, int count, Acc* out, Index width) {
  constexpr int step = W * kLanes<Acc>;
  for (; column + step <= width; column += step)
    add_columns<Acc, across, M, W>(weights, rows + column, count, out + column, width);
  if constexpr (W > 1)
    if (column < width) add_from<Acc, across, M, W / 2>(column, weights, rows, count, out, width);
}
template <class Acc, bool across, int M>
OVERT_APART void add(const Acc* weights, const Acc* rows, int count, Acc* out, Index width) {
  add_from<Acc, across, M>(0, weights, rows, count, out, width);
}

// The same, but a weight of exactly 0 keeps its row out, though it be NaN or infinite.
template <class Acc> void add_carefully(int M, const Acc* weights, const Acc* rows, int count, Acc* out, Index width) {
  for (int r = 0; r < M; ++r)
    for (int s = 0; s < count; ++s)
      if (Acc weight = weights[r * kStep + s]; weight != 0)
        for (Index e = 0; e < width; e += kLanes<Acc>)
          store(out + r * width + e, load(out + r * width + e) + weight * load(rows + s * width + e));
}

// What is not finite becomes 0: where it can be seen, the weights or delta are NaN already and say so.
template <class Lane> OVERT_INLINE Lane finite(Lane x) { return x - x == 0 ? x : Lane{}; }

// One query of the block.
template <class Acc> struct Row {
  const std::uint8_t* bits;
  const Acc* bias;
  Index place;  // in a (B, H, T) array
  Range span;
};

// Working memory of a task.
template <class Acc> struct Bench {
  using Edge = typename Vector<Acc>::Bits;
  static constexpr int lanes = kLanes<Acc>;

  // Of the block of keys: in groups of kRows to be broadcast, and as rows.
  Acc *keys = nullptr, *values = nullptr;  // [groups][D or E][kQueries]
  Acc* key_rows = nullptr;                 // [keys][wide_D]
  Acc *dk = nullptr, *dv = nullptr;        // [keys][wide_D or wide_E]
  // Of the block of queries: as panels, and as rows.
  Row<Acc>* rows = nullptr;
  Acc *queries = nullptr, *dys = nullptr;         // [panels][D or E][kPanel]
  Acc *query_rows = nullptr, *dy_rows = nullptr;  // [kQueryBlock][wide_D or wide_E]
  Acc* dq = nullptr;                              // [kQueryBlock][wide_D]
  Acc *lse = nullptr, *rest = nullptr;            // of the log-sums; the rest is in units of log₂
  Acc* delta = nullptr;
  Edge *first = nullptr, *last = nullptr;
  // Of both.
  Acc* weights = nullptr;  // [kRows][kStep]
  Acc* slopes = nullptr;   // the same, of the softcap
  Acc* kept = nullptr;     // the same, factors of dropout
  Acc* pulls = nullptr;    // [keys][kStep] ds
  std::uint32_t *query = nullptr, *head = nullptr, *batch = nullptr;  // [kQueryBlock] as dropout knows the rows
  Acc* turned = nullptr;      // [D][kQueryBlock] dq of the additive score
  double* additive = nullptr;  // [D] Σ ds r, or of a steep one Σ ds tanh

  void place(Arena& arena, const Way<Acc>& way) {
    const Problem& p = way.p;
    arena.take(keys, way.keys / kRows * p.D * kQueries<Acc>);
    arena.take(values, way.keys / kRows * p.E * kQueries<Acc>);
    arena.take(key_rows, way.keys * way.wide_D);
    arena.take(dk, way.keys * way.wide_D);
    arena.take(dv, way.keys * way.wide_E);
    arena.take(rows, kQueryBlock);
    arena.take(queries, kQueryBlock * p.D);
    arena.take(dys, kQueryBlock * p.E);
    arena.take(query_rows, kQueryBlock * way.wide_D);
    arena.take(dy_rows, kQueryBlock * way.wide_E);
    arena.take(dq, kQueryBlock * way.wide_D);
    arena.take(lse, kQueryBlock);
    arena.take(rest, kQueryBlock);
    arena.take(delta, kQueryBlock);
    arena.take(first, kQueryBlock / lanes);
    arena.take(last, kQueryBlock / lanes);
    arena.take(weights, kRows * kStep);
    if (p.softcap > 0) arena.take(slopes, kRows * kStep);
    arena.take(pulls, way.keys * kStep);
    if (p.dropout > 0) {
      arena.take(kept, kRows * kStep);
      arena.take(query, kQueryBlock);
      arena.take(head, kQueryBlock);
      arena.take(batch, kQueryBlock);
    }
    if (p.additive) {
      arena.take(turned, p.D * kQueryBlock);
      arena.take(additive, p.D);
    }
  }
};

template <class Acc> struct Meeting {
  using Edge = typename Vector<Acc>::Bits;
  static constexpr int lanes = kLanes<Acc>, panel = kPanel<Acc>, most_panels = kQueryBlock / panel;
  static constexpr Acc hidden_score = Acc(-kInfinity);

  const Problem& p;
  const Way<Acc>& way;
  const Pull& pull;
  const Scoring<Acc> scoring;
  const Dropping<Acc> dropping;
  Bench<Acc> work;
  Range keys = {};                // of the task
  int count = 0;                  // rows of the block of queries
  int panels = 0;                 // that they fill
  int width = 0;                  // columns of these that are computed
  bool wild = false;              // some dy is not finite
  double pulled = 0;              // Σ ds of the task
  Range any[most_panels] = {};    // no query of the panel sees a key outside
  Range every[most_panels] = {};  // every query of the panel sees all keys inside, as far as the spans say
  Range seen[most_panels] = {};   // groups of keys that the panel has met

  // A block of queries: the task fills work.rows, notes each, and if any is visible sets each and calls meet().
  void start(int rows) {
    count = rows;
    panels = int(ceil_div(rows, panel));
    // Where no query lies in the second half of the last panel, nobody looks there.
    width = int(round_up(rows, scoring.v ? panel : lanes));
    for (int i = 0; i < panels; ++i) any[i] = {INT_MAX, 0}, every[i] = {0, INT_MAX}, seen[i] = {INT_MAX, 0};
  }

  void note(int r) {
    Range span = work.rows[r].span, &widest = any[r / panel];
    if (!span.empty()) widest = {smaller(widest.begin, span.begin), larger(widest.end, span.end)};
    every[r / panel] = intersect(every[r / panel], span);
  }

  bool any_visible() const {
    for (int i = 0; i < panels; ++i)
      if (!intersect(any[i], keys).empty()) return true;
    return false;
  }

  void set_row(int r, Acc lse, Acc rest, Acc delta, Range span) {
    // A row that sees nothing has lse −inf and weights 0.
    work.lse[r] = lse == Acc(-kInfinity) ? Acc(kInfinity) : lse;
    // Small log-sums have no rest, and all of them is subtracted after the multiplication.
    work.rest[r] = (kFuses && !pull.lse.rest ? work.lse[r] : rest) * Acc(kLog2e);
    work.delta[r] = delta;
    work.first[r / lanes][r % lanes] = span.begin;
    work.last[r / lanes][r % lanes] = span.end;
  }

  void meet() {
    if (scoring.v) __builtin_memset(work.turned, 0, p.D * kQueryBlock * sizeof(Acc));
    for (int s = keys.begin; s < keys.end; s += kRows) meet_keys(s);
    if (pull.dq) pull_queries();
  }

  bool visible(int i, Range group) const {
    if (intersect(any[i], group).empty()) return false;
    if (!p.bits.data) return true;
    unsigned found = 0;
    for (int r = i * panel; r < smaller(count, (i + 1) * panel); ++r)
      for (int s = group.begin; s < group.end; ++s) found |= work.rows[r].bits[s];
    return found;
  }

  // Everything between one group of keys and the block of queries, but for dq.
  void meet_keys(int key) {
    Range group = {key, smaller(key + kRows, keys.end)};
    int index = (key - keys.begin) / kRows, begin = 0, end = panels;
    while (begin < end && !visible(begin, group)) ++begin;
    while (begin < end && !visible(end - 1, group)) --end;
    Acc* pulls = work.pulls + index * kRows * kStep;
    // dq reads these out to the panels that other groups of keys meet.
    for (int r = 0; r < group.end - group.begin; ++r) {
      __builtin_memset(pulls + r * kStep, 0, begin * panel * sizeof(Acc));
      __builtin_memset(pulls + r * kStep + end * panel, 0, (panels - end) * panel * sizeof(Acc));
    }
    if (begin == end) return;
    for (int i = begin; i < end; ++i) seen[i] = {smaller(seen[i].begin, index), index + 1};
    with_size(rounded_size(group.end - group.begin), [&]<int M>() { meet_group<M>(group, begin, end, pulls); });
  }

  template <int M> OVERT_INLINE void meet_group(Range group, int begin, int end, Acc* pulls) {
    int index = (group.begin - keys.begin) / kRows;
    int column = begin * panel, last = smaller(end * panel, width), rows = smaller(count, last) - column;
    bool half = last < end * panel;
    const Acc* key = work.keys + index * p.D * kQueries<Acc>;
    compare<Acc, M>(scoring, key, work.queries + column * p.D, p.D, end - begin, work.weights + column, kStep, half);
    if (pull.dq || pull.dk || pull.dbias || pull.dadditive)
      multiply<Acc, M>(work.values + index * p.E * kQueries<Acc>, work.dys + column * p.E, p.E, end - begin, pulls + column,
                       kStep, half);
    if (scoring.cap > 0) cap(M, column, last);
    if (p.bias.data) add_bias(group, column, last);
    if (p.bits.data) hide(group, column, column + rows);
    if (p.dropout > 0) draw(group, column, last, pulls);
    for (int i = begin; i < end; ++i) {
      bool plain = !p.bits.data && !p.bias.data && every[i].begin <= group.begin && every[i].end >= group.end &&
                   smaller((i + 1) * panel, width) <= count;
      if (kFuses && !pull.lse.rest) {
        if (plain) weigh<false, true>(M, i * panel, group.begin, pulls);
        else weigh<true, true>(M, i * panel, group.begin, pulls);
      } else {
        if (plain) weigh<false, false>(M, i * panel, group.begin, pulls);
        else weigh<true, false>(M, i * panel, group.begin, pulls);
      }
    }
    if (p.dropout > 0) scale_by_kept(group, column, last, work.weights);
    if (pull.dbias) keep_bias(group, column, column + rows, pulls);
    if (scoring.cap > 0) scale_by_slopes(M, column, last, pulls);
    Acc* dk = work.dk + index * kRows * way.wide_D;
    Acc* dv = work.dv + index * kRows * way.wide_E;
    const Acc* dys = work.dy_rows + column * way.wide_E;
    if (pull.dv && wild) add_carefully<Acc>(M, work.weights + column, dys, rows, dv, way.wide_E);
    if (pull.dv && !wild) add<Acc, false, M>(work.weights + column, dys, rows, dv, way.wide_E);
    if (scoring.v) return pull_additive<M>(group, column, last - column, pulls + column, dk);
    if (pull.dk) add<Acc, false, M>(pulls + column, work.query_rows + column * way.wide_D, rows, dk, way.wide_D);
  }

  template <int M> OVERT_APART void pull_additive(Range group, int column, int width, Acc* pulls, Acc* dk) {
    // Rows that only fill up the group.
    for (int r = group.end - group.begin; r < M; ++r) __builtin_memset(pulls + r * kStep, 0, width * sizeof(Acc));
    Lane<Acc> total = {};
    for (int r = 0; r < M; ++r)
      for (int i = 0; i < width; i += lanes) total += load(pulls + r * kStep + i);
    pulled += sum<Acc>(total);
    const Acc* key = work.keys + (group.begin - keys.begin) * p.D / kRows * kQueries<Acc>;
    for (Index d = 0; d < p.D; ++d) {
      const Acc *row = key + d * kQueries<Acc>, *queries = work.queries + column * p.D + d * panel;
      Acc* down = work.turned + d * kQueryBlock + column;
      work.additive[d] +=
          scoring.steep ? pull_steep_feature<Acc>(M, row, queries, p.D, width, pulls, kStep, dk + d, way.wide_D, down)
          : scoring.bounded ? pull_feature<Acc, M, true>(row, queries, p.D, width, pulls, kStep, dk + d, way.wide_D, down)
                         : pull_feature<Acc, M, false>(row, queries, p.D, width, pulls, kStep, dk + d, way.wide_D, down);
    }
  }

  // Factors of dropout; a dropped weight gets nothing from its value.
  OVERT_APART void draw(Range group, int begin, int end, Acc* pulls) {
    auto words = [](const std::uint32_t* from) {
      Words x;
      __builtin_memcpy(&x, from, kBytes);
      return x;
    };
    for (int i = begin; i < end; i += kWords)
      dropping.factors(group.begin, group.end, words(work.query + i), words(work.head + i), words(work.batch + i),
                       work.kept + i, kStep);
    scale_by_kept(group, begin, end, pulls);
  }

  OVERT_APART void scale_by_kept(Range group, int begin, int end, Acc* tile) {
    for (int r = 0; r < group.end - group.begin; ++r)
      for (int i = r * kStep + begin; i < r * kStep + end; i += lanes)
        store(tile + i, load(tile + i) * load(work.kept + i));
  }

  // Scores to weights, and dp to ds, of one panel.
  template <bool masked, bool fused> OVERT_APART void weigh(int rows, int column, int key, Acc* pulls) {
    for (int i = column; i < smaller(column + panel, width); i += lanes) {
      Lane<Acc> lse = load(work.lse + i), rest = load(work.rest + i), delta = load(work.delta + i);
      Edge first = work.first[i / lanes], last = work.last[i / lanes];
      for (int r = 0; r < rows; ++r) {
        Acc *at_weight = work.weights + r * kStep + i, *at_pull = pulls + r * kStep + i;
        Lane<Acc> x = load(at_weight), w = exp2<Acc>(fused ? x * Acc(kLog2e) - rest : (x - lse) * Acc(kLog2e) - rest);
        Lane<Acc> ds = w * (load(at_pull) - delta);
        if constexpr (masked) {
          Edge hidden = (first > key + r) | (last <= key + r) | (x == hidden_score);
          w = hidden ? Lane<Acc>{} : w;
          ds = hidden ? Lane<Acc>{} : ds;
        }
        store(at_weight, w);
        store(at_pull, ds);
      }
    }
  }

  OVERT_APART void cap(int rows, int begin, int end) {
    for (int r = 0; r < rows; ++r)
      for (int i = r * kStep + begin; i < r * kStep + end; i += lanes) {
        Lane<Acc> x = tanh<Acc>(load(work.weights + i));
        store(work.weights + i, x * scoring.cap);
        store(work.slopes + i, (Acc(1) - x) * (Acc(1) + x));
      }
  }

  OVERT_APART void scale_by_slopes(int rows, int begin, int end, Acc* pulls) {
    for (int r = 0; r < rows; ++r)
      for (int i = r * kStep + begin; i < r * kStep + end; i += lanes) {
        Lane<Acc> x = load(pulls + i);
        store(pulls + i, x == 0 ? Lane<Acc>{} : x * load(work.slopes + i));
      }
  }

  OVERT_APART void add_bias(Range group, int begin, int end) {
    for (int column = begin; column < end; column += lanes)
      for (int s = 0; s < group.end - group.begin; s += lanes) {
        Lane<Acc> x[lanes];
        if (p.even_bias) {
          Lane<Acc> each = {};
          for (int i = 0; i < smaller(lanes, count - column); ++i) each[i] = *work.rows[column + i].bias;
          OVERT_UNROLL
          for (int i = 0; i < lanes; ++i) x[i] = each;
        } else {
          auto row = [&](int i) { return work.rows[column + i].bias + group.begin; };
          load_transposed<Acc>(row, count - column, s, group.end - group.begin, x);
        }
        for (int i = 0; i < smaller(lanes, group.end - group.begin - s); ++i) {
          Acc* score = work.weights + (s + i) * kStep + column;
          store(score, load(score) + x[i]);
        }
      }
  }

  OVERT_APART void hide(Range group, int begin, int end) {
    for (int t = begin; t < end; ++t)
      for (int s = group.begin; s < group.end; ++s)
        if (!work.rows[t].bits[s]) work.weights[(s - group.begin) * kStep + t] = hidden_score;
  }

  void clear_bias() {
    for (int r = 0; r < count; ++r)
      __builtin_memset(static_cast<Acc*>(pull.dbias) + work.rows[r].place * p.S + keys.begin, 0,
                       (keys.end - keys.begin) * sizeof(Acc));
  }

  OVERT_APART void keep_bias(Range group, int begin, int end, const Acc* pulls) {
    for (int t = begin; t < end; ++t) {
      Acc* to = static_cast<Acc*>(pull.dbias) + work.rows[t].place * p.S;
      for (int s = group.begin; s < group.end; ++s) to[s] = pulls[(s - group.begin) * kStep + t];
    }
  }

  // dq of the block of queries from the keys of the task.
  void pull_queries() {
    if (scoring.v) {
      for (int r = 0; r < count; ++r)
        for (Index d = 0; d < p.D; ++d) work.dq[r * way.wide_D + d] = 4 * work.turned[d * kQueryBlock + r] * scoring.v[d];
      return;
    }
    __builtin_memset(work.dq, 0, round_up(count, kRows) * way.wide_D * sizeof(Acc));
    for (int t = 0; t < count; t += kRows) {
      int rows = smaller(kRows, count - t);
      Range groups = {INT_MAX, 0};
      for (int i = t / panel; i <= (t + rows - 1) / panel; ++i)
        groups = {smaller(groups.begin, seen[i].begin), larger(groups.end, seen[i].end)};
      if (groups.empty()) continue;
      int begin = groups.begin * kRows, end = smaller(groups.end * kRows, keys.end - keys.begin);
      with_size(rounded_size(rows), [&]<int M>() {
        add<Acc, true, M>(work.pulls + begin * kStep + t, work.key_rows + begin * way.wide_D, end - begin,
                          work.dq + t * way.wide_D, way.wide_D);
      });
    }
  }
};

}  // namespace overt::OVERT_LEVEL
