// Gradients from the output and the log-sum-exp: weights are computed again, tile by tile, and never kept.
// Compiled once per level; see README.md.
//
// With p the weights, dp = dy vᵀ and delta = Σ dy·y of a row:
//   ds = p (dp − delta),  dq = scale · ds k,  dk = scale · dsᵀ q,  dv = pᵀ dy.
// A task takes one block of keys of one key head and goes through the blocks of queries that read it.  Tiles lie with
// keys down and queries across, so that dk and dv of the task build up without anybody else.  dq of a block of queries
// gathers from the tasks of all blocks of keys, each in its turn: so no sum depends on the threads.
#include <math.h>
#include <sched.h>

#include "blocks.h"

namespace overt::OVERT_LEVEL {
namespace {

// Whole panels and whole groups of rows at every level, and small enough that all of a task stays in the L2 cache.
constexpr int kQueryBlock = 192;
constexpr int kMostKeys = 192;

template <class Acc> struct Way {
  const Problem& p;
  Index heads;   // query heads that share a key head, and with it the rows of a task
  Index rows;    // of a key head
  Index sets;    // key heads
  Index query_blocks, key_blocks, tasks;
  int keys;      // of a task
  Index wide_D, wide_E;
  bool sinks;

  Way(const Problem& p, bool sinks) : p(p), keys(kMostKeys), sinks(sinks) {
    heads = p.H / p.G;
    rows = heads * p.T;
    sets = p.B * p.G;
    query_blocks = ceil_div(rows, kQueryBlock);
    // Smaller blocks where there would be little to share out.
    while (keys > 48 && sets * ceil_div(p.S, keys) < 16) keys /= 2;
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
      Lane<Acc> weight = all(across ? weights[s * kTileStride + r] : weights[r * kTileStride + s]);
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
OVERT_INLINE void add(const Acc* weights, const Acc* rows, int count, Acc* out, Index width, Index column = 0) {
  constexpr int step = W * kLanes<Acc>;
  for (; column + step <= width; column += step)
    add_columns<Acc, across, M, W>(weights, rows + column, count, out + column, width);
  if constexpr (W > 1)
    if (column < width) add<Acc, across, M, W / 2>(weights, rows, count, out, width, column);
}

// The same, but a weight of exactly 0 keeps its row out, though it be NaN or infinite.
template <class Acc> void add_carefully(int M, const Acc* weights, const Acc* rows, int count, Acc* out, Index width) {
  for (int r = 0; r < M; ++r)
    for (int s = 0; s < count; ++s)
      if (Acc weight = weights[r * kTileStride + s]; weight != 0)
        for (Index e = 0; e < width; e += kLanes<Acc>)
          store(out + r * width + e, load(out + r * width + e) + weight * load(rows + s * width + e));
}

// What is not finite becomes 0: where it can be seen, the weights or delta are NaN already and say so.
template <class Lane> OVERT_INLINE Lane finite(Lane x) { return x - x == 0 ? x : Lane{}; }

template <class In> struct Backward {
  using Acc = Accumulator<In>;
  using Edge = typename Vector<Acc>::Bits;
  static constexpr int lanes = kLanes<Acc>, panel = kPanel<Acc>, most_panels = kQueryBlock / panel;
  static constexpr Acc hidden_score = Acc(-kInfinity);

  struct Shared {
    int* turns = nullptr;     // [sets][query_blocks] blocks of keys whose share dq has
    double* sinks = nullptr;  // [B][H]
    void place(Arena& arena, const Way<Acc>& way) {
      arena.take(turns, way.sets * way.query_blocks);
      if (way.sinks) arena.take(sinks, way.p.B * way.p.H);
    }
  };

  struct Row {
    const In *q, *y, *dy;
    const std::uint8_t* bits;
    const Acc* bias;
    Index place, head;  // place: in a (B, H, T) array
    Range span;
  };

  struct Workspace {
    // Of the block of keys: in groups of kRows to be broadcast, and as rows.
    Acc *keys = nullptr, *values = nullptr;  // [groups][D or E][kQueries]
    Acc* key_rows = nullptr;                 // [keys][wide_D]
    Acc *dk = nullptr, *dv = nullptr;        // [keys][wide_D or wide_E]
    // Of the block of queries: as panels, and as rows.
    Row* rows = nullptr;
    Acc *queries = nullptr, *dys = nullptr;         // [panels][D or E][kPanel]
    Acc *query_rows = nullptr, *dy_rows = nullptr;  // [kQueryBlock][wide_D or wide_E]
    Acc* dq = nullptr;                              // [kQueryBlock][wide_D]
    Acc *shift = nullptr, *delta = nullptr;         // score − shift is log₂ of the weight
    Edge *first = nullptr, *last = nullptr;
    // Of both.
    Acc* weights = nullptr;  // [kRows][kTileStride]
    Acc* slopes = nullptr;   // the same, of the softcap
    Acc* pulls = nullptr;    // [keys][kTileStride] ds

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
      arena.take(shift, kQueryBlock);
      arena.take(delta, kQueryBlock);
      arena.take(first, kQueryBlock / lanes);
      arena.take(last, kQueryBlock / lanes);
      arena.take(weights, kRows * kTileStride);
      if (p.softcap > 0) arena.take(slopes, kRows * kTileStride);
      arena.take(pulls, way.keys * kTileStride);
    }
  };

  const Problem& p;
  const Way<Acc>& way;
  const Pull& pull;
  const Shared& shared;
  const Scoring<Acc> scoring;
  Workspace work;
  Index set = 0;
  Range keys = {};                     // of the task
  int count = 0;                       // rows of the block of queries
  int panels = 0;
  bool wild = false;                   // whether some dy is not finite
  Range any[most_panels] = {};         // no query of the panel sees a key outside
  Range every[most_panels] = {};       // every query of the panel sees all keys inside, as far as the spans say
  Range seen[most_panels] = {};        // groups of keys that the panel has met

  void task(Index index) {
    // Neighbouring tasks belong to different key heads, and so seldom wait for each other.
    set = index % way.sets;
    Index block = index / way.sets, b = set / p.G, g = set % p.G;
    keys = {int(block * way.keys), int(smaller<Index>(p.S, (block + 1) * way.keys))};
    int size = keys.end - keys.begin;
    for (int s = 0; s < size; s += kRows) {
      const In *k[kRows], *v[kRows];
      int some = smaller(kRows, size - s);
      for (int r = 0; r < some; ++r) k[r] = at<In>(p.k, b, g, keys.begin + s + r), v[r] = at<In>(p.v, b, g, keys.begin + s + r);
      Acc* values = work.values + s / kRows * p.E * kQueries<Acc>;
      pack_queries<In>(k, some, p.D, scoring.factor, work.keys + s / kRows * p.D * kQueries<Acc>);
      pack_queries<In>(v, some, p.E, Acc(1), values);
      for (Index i = 0; i < p.E * kQueries<Acc>; i += lanes) store(values + i, finite(load(values + i)));
      for (int r = 0; r < some; ++r)
        for (Index d = 0; d < way.wide_D; d += lanes)
          store(work.key_rows + (s + r) * way.wide_D + d, finite(load_some(k[r] + d, p.D - d)));
    }
    __builtin_memset(work.dk, 0, way.keys * way.wide_D * sizeof(Acc));
    __builtin_memset(work.dv, 0, way.keys * way.wide_E * sizeof(Acc));
    if (block == 0 && way.sinks)
      for (Index h = 0; h < way.heads; ++h) shared.sinks[b * p.H + g * way.heads + h] = 0;
    for (Index i = 0; i < way.query_blocks; ++i) queries(i, int(block));
    Acc *dk = static_cast<Acc*>(pull.dk) + (set * p.S + keys.begin) * p.D;
    Acc *dv = static_cast<Acc*>(pull.dv) + (set * p.S + keys.begin) * p.E;
    for (int s = 0; s < size; ++s) {
      for (Index d = 0; d < p.D; ++d) dk[s * p.D + d] = work.dk[s * way.wide_D + d] * Acc(p.scale);
      for (Index e = 0; e < p.E; ++e) dv[s * p.E + e] = work.dv[s * way.wide_E + e];
    }
  }

  void queries(Index index, int block) {
    bool meet = find_rows(index * kQueryBlock);
    if (block == 0 && way.sinks) pull_sinks();
    if (pull.dbias)
      for (int r = 0; r < count; ++r)
        __builtin_memset(static_cast<Acc*>(pull.dbias) + work.rows[r].place * p.S + keys.begin, 0,
                         (keys.end - keys.begin) * sizeof(Acc));
    if (meet) {
      load_rows();
      for (int i = 0; i < panels; ++i) seen[i] = {INT_MAX, 0};
      for (int s = keys.begin; s < keys.end; s += kRows) meet_keys(s);
      pull_queries();
    }
    int* turn = shared.turns + set * way.query_blocks + index;
    // Whoever is before us started before us and waits for nobody behind him.
    while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != block) sched_yield();
    if (meet || block == 0)
      for (int r = 0; r < count; ++r) {
        Acc* dq = static_cast<Acc*>(pull.dq) + work.rows[r].place * p.D;
        const Acc* share = work.dq + r * way.wide_D;
        if (!meet) __builtin_memset(dq, 0, p.D * sizeof(Acc));
        else if (block == 0) for (Index d = 0; d < p.D; ++d) dq[d] = share[d] * Acc(p.scale);
        else for (Index d = 0; d < p.D; ++d) dq[d] += share[d] * Acc(p.scale);
      }
    __atomic_store_n(turn, block + 1, __ATOMIC_RELEASE);
  }

  // Where the rows of a block lie and what they may see; whether they may see a key of the task.
  bool find_rows(Index first) {
    count = int(smaller<Index>(kQueryBlock, way.rows - first));
    panels = int(ceil_div(count, panel));
    Index b = set / p.G, head = set % p.G * way.heads, t = first / way.heads, h = head + first % way.heads;
    for (int i = 0; i < panels; ++i) any[i] = {INT_MAX, 0}, every[i] = {0, INT_MAX};
    Range all = {INT_MAX, 0};
    for (int r = 0; r < count; ++r) {
      Row& row = work.rows[r];
      row.place = (b * p.H + h) * p.T + t;
      row.head = h;
      row.q = at<In>(p.q, b, h, t);
      row.y = at<In>(pull.output, b, h, t);
      row.dy = at<In>(pull.dy, b, h, t);
      row.bits = p.bits.data ? at<std::uint8_t>(p.bits, b, h, t) : nullptr;
      row.bias = p.bias.data ? at<Acc>(p.bias, b, h, t) : nullptr;
      Range span = {0, int(p.S)};
      if (p.first.data) span.begin = larger(0, int(*at<std::int32_t>(p.first, b, h, t)));
      if (p.last.data) span.end = smaller(span.end, int(*at<std::int32_t>(p.last, b, h, t)));
      if (span.empty()) span = {0, 0};
      else any[r / panel] = {smaller(any[r / panel].begin, span.begin), larger(any[r / panel].end, span.end)};
      every[r / panel] = intersect(every[r / panel], span);
      row.span = span;
      if (++h == head + way.heads) h = head, ++t;
    }
    for (int i = 0; i < panels; ++i) all = {smaller(all.begin, any[i].begin), larger(all.end, any[i].end)};
    return !intersect(all, keys).empty();
  }

  Acc delta(const Row& row) const {
    Lane<Acc> products = {};
    for (Index e = 0; e < p.E; e += lanes) products += load_some(row.y + e, p.E - e) * load_some(row.dy + e, p.E - e);
    return sum<Acc>(products);
  }

  void load_rows() {
    Lane<Acc> suspect = {};
    for (int r = 0; r < panels * panel; ++r) {
      // Rows that only fill up the last panel get weights of 0.
      work.shift[r] = kInfinity;
      work.delta[r] = 0;
      work.first[r / lanes][r % lanes] = work.last[r / lanes][r % lanes] = 0;
      if (r >= count) continue;
      const Row& row = work.rows[r];
      // So do rows that see nothing: their lse is −inf.
      Acc lse = static_cast<const Acc*>(pull.lse)[row.place] * Acc(kLog2e);
      work.shift[r] = lse == hidden_score ? Acc(kInfinity) : lse;
      work.delta[r] = delta(row);
      work.first[r / lanes][r % lanes] = row.span.begin;
      work.last[r / lanes][r % lanes] = row.span.end;
      for (Index d = 0; d < way.wide_D; d += lanes)
        store(work.query_rows + r * way.wide_D + d, finite(load_some(row.q + d, p.D - d)));
      for (Index e = 0; e < way.wide_E; e += lanes) {
        Lane<Acc> x = load_some(row.dy + e, p.E - e);
        store(work.dy_rows + r * way.wide_E + e, x);
        suspect += x * Acc(0);
      }
    }
    wild = sum<Acc>(suspect) != 0;
    for (int r = 0; r < panels * panel; r += lanes) {
      transpose_rows([&](int i) { return r + i < count ? work.rows[r + i].q : nullptr; }, p.D, work.queries, r);
      transpose_rows([&](int i) { return r + i < count ? work.rows[r + i].dy : nullptr; }, p.E, work.dys, r);
    }
  }

  template <class Get> OVERT_INLINE static void transpose_rows(const Get& get, Index width, Acc* out, int r) {
    out += r / panel * panel * width + r % panel;
    for (Index d = 0; d < width; d += lanes) {
      Lane<Acc> x[lanes];
      load_transposed<In>(get, d, width, x);
      OVERT_UNROLL
      for (int i = 0; i < lanes; ++i)
        if (d + i < width) store(out + (d + i) * panel, x[i]);
    }
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
    Acc* pulls = work.pulls + index * kRows * kTileStride;
    // dq reads these out to the panels that other groups of keys meet.
    for (int r = 0; r < group.end - group.begin; ++r) {
      __builtin_memset(pulls + r * kTileStride, 0, begin * panel * sizeof(Acc));
      __builtin_memset(pulls + r * kTileStride + end * panel, 0, (panels - end) * panel * sizeof(Acc));
    }
    if (begin == end) return;
    for (int i = begin; i < end; ++i) seen[i] = {smaller(seen[i].begin, index), index + 1};
    with_size(rounded_size(group.end - group.begin), [&]<int M>() { meet<M>(group, begin, end, pulls); });
  }

  template <int M> OVERT_INLINE void meet(Range group, int begin, int end, Acc* pulls) {
    int index = (group.begin - keys.begin) / kRows, column = begin * panel, rows = smaller(count, end * panel) - column;
    multiply<Acc, M>(work.keys + index * p.D * kQueries<Acc>, work.queries + column * p.D, p.D, end - begin,
                     work.weights + column);
    multiply<Acc, M>(work.values + index * p.E * kQueries<Acc>, work.dys + column * p.E, p.E, end - begin,
                     pulls + column);
    if (scoring.cap > 0) cap<M>(column, end * panel);
    if (p.bias.data) add_bias<M>(group, column, end * panel);
    if (p.bits.data) hide(group, column, column + rows);
    for (int i = begin; i < end; ++i) {
      bool plain = !p.bits.data && !p.bias.data && every[i].begin <= group.begin && every[i].end >= group.end &&
                   (i + 1) * panel <= count;
      if (plain) weigh<M, false>(i * panel, group.begin, pulls);
      else weigh<M, true>(i * panel, group.begin, pulls);
    }
    if (pull.dbias) keep_bias(group, column, column + rows, pulls);
    if (scoring.cap > 0)
      for (int r = 0; r < M; ++r)
        for (int i = r * kTileStride + column; i < r * kTileStride + end * panel; i += lanes) {
          Lane<Acc> x = load(pulls + i);
          store(pulls + i, x == 0 ? Lane<Acc>{} : x * load(work.slopes + i));
        }
    Acc* dk = work.dk + index * kRows * way.wide_D;
    Acc* dv = work.dv + index * kRows * way.wide_E;
    const Acc* dys = work.dy_rows + column * way.wide_E;
    if (wild) add_carefully<Acc>(M, work.weights + column, dys, rows, dv, way.wide_E);
    else add<Acc, false, M>(work.weights + column, dys, rows, dv, way.wide_E);
    add<Acc, false, M>(pulls + column, work.query_rows + column * way.wide_D, rows, dk, way.wide_D);
  }

  // Scores to weights, and dp to ds, of one panel.
  template <int M, bool masked> OVERT_INLINE void weigh(int column, int key, Acc* pulls) {
    for (int i = column; i < column + panel; i += lanes) {
      Lane<Acc> shift = load(work.shift + i), delta = load(work.delta + i);
      Edge first = work.first[i / lanes], last = work.last[i / lanes];
      OVERT_UNROLL
      for (int r = 0; r < M; ++r) {
        Acc *at_weight = work.weights + r * kTileStride + i, *at_pull = pulls + r * kTileStride + i;
        Lane<Acc> x = load(at_weight), w = exp2<Acc>(x - shift), ds = w * (load(at_pull) - delta);
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

  template <int M> void cap(int begin, int end) {
    for (int r = 0; r < M; ++r)
      for (int i = r * kTileStride + begin; i < r * kTileStride + end; i += lanes) {
        Lane<Acc> x = tanh<Acc>(load(work.weights + i));
        store(work.weights + i, x * scoring.cap);
        store(work.slopes + i, (Acc(1) - x) * (Acc(1) + x));
      }
  }

  template <int M> void add_bias(Range group, int begin, int end) {
    for (int column = begin; column < end; column += lanes)
      for (int s = 0; s < group.end - group.begin; s += lanes) {
        Lane<Acc> x[lanes];
        load_transposed<Acc>([&](int i) { return column + i < count ? work.rows[column + i].bias + group.begin : nullptr; },
                             s, group.end - group.begin, x);
        for (int i = 0; i < smaller(lanes, M - s); ++i) {
          Acc* score = work.weights + (s + i) * kTileStride + column;
          store(score, load(score) + x[i] * Acc(kLog2e));
        }
      }
  }

  void hide(Range group, int begin, int end) {
    for (int t = begin; t < end; ++t)
      for (int s = group.begin; s < group.end; ++s)
        if (!work.rows[t].bits[s]) work.weights[(s - group.begin) * kTileStride + t] = hidden_score;
  }

  void keep_bias(Range group, int begin, int end, const Acc* pulls) {
    for (int t = begin; t < end; ++t) {
      Acc* to = static_cast<Acc*>(pull.dbias) + work.rows[t].place * p.S;
      for (int s = group.begin; s < group.end; ++s) to[s] = pulls[(s - group.begin) * kTileStride + t];
    }
  }

  // dq of the block of queries from the keys of the task.
  void pull_queries() {
    __builtin_memset(work.dq, 0, kQueryBlock * way.wide_D * sizeof(Acc));
    for (int t = 0; t < count; t += kRows) {
      int rows = smaller(kRows, count - t);
      Range groups = {INT_MAX, 0};
      for (int i = t / panel; i <= (t + rows - 1) / panel; ++i)
        groups = {smaller(groups.begin, seen[i].begin), larger(groups.end, seen[i].end)};
      if (groups.empty()) continue;
      int begin = groups.begin * kRows, end = smaller(groups.end * kRows, keys.end - keys.begin);
      with_size(rounded_size(rows), [&]<int M>() {
        add<Acc, true, M>(work.pulls + begin * kTileStride + t, work.key_rows + begin * way.wide_D, end - begin,
                          work.dq + t * way.wide_D, way.wide_D);
      });
    }
  }

  // A sink takes its share of a row and gives nothing, so its score pulls by −p (dy·y).
  void pull_sinks() {
    for (int r = 0; r < count; ++r) {
      const Row& row = work.rows[r];
      Acc sink = static_cast<const Acc*>(p.sinks)[row.head], lse = static_cast<const Acc*>(pull.lse)[row.place];
      if (sink == hidden_score) continue;
      shared.sinks[row.place / p.T] -= ::exp(double(sink) - double(lse)) * double(delta(row));
    }
  }

  static bool run(const Problem& p, const Run& run, const Pull& pull) {
    Way<Acc> way(p, p.sinks && pull.dsinks);
    Run chosen = {int(smaller<Index>(worthwhile_threads(p, run), way.tasks)), run.poison};
    Scratch<Shared, Workspace, Way<Acc>> scratch(way, chosen);
    if (!scratch.memory) return false;
    Shared shared = scratch.shared();
    __builtin_memset(shared.turns, 0, way.sets * way.query_blocks * sizeof(int));
    Queue queue;
    in_parallel(chosen.threads, [&](int thread) {
      Backward backward = {p, way, pull, shared, Scoring<Acc>(p), scratch.workspace(thread)};
      for (Index index; (index = queue.take()) < way.tasks;) backward.task(index);
    });
    for (Index h = 0; way.sinks && h < p.H; ++h) {
      double total = 0;
      for (Index b = 0; b < p.B; ++b) total += shared.sinks[b * p.H + h];
      static_cast<Acc*>(pull.dsinks)[h] = Acc(total);
    }
    return true;
  }
};

}  // namespace

bool backward(const Problem& p, const Run& run, const Pull& pull) {
  switch (p.type) {
    case Type::float16: return Backward<Float16>::run(p, run, pull);
    case Type::bfloat16: return Backward<BFloat16>::run(p, run, pull);
    case Type::float32: return Backward<float>::run(p, run, pull);
    default: return Backward<double>::run(p, run, pull);
  }
}

}  // namespace overt::OVERT_LEVEL
