// softmax(scores) · values, block by block of keys with a running maximum, so that no row of weights is ever whole.
// Compiled once per level; see README.md.
#include <math.h>

#include "drop.h"
#include "kept.h"

namespace overt::OVERT_LEVEL {
namespace {

// Turns some rows of scores into weights relative to the running maximum `top` of each row, adds them to `sums` lane by
// lane, and leaves in `shrink` what earlier sums have to be multiplied by and in `base` what was subtracted.  Gives them to
// put(r, i, x, y), two vectors at a time.  With `spread`, adds Σ weight · ln weight to that.
template <class Acc, bool with_spread, class Raise, class Put>
OVERT_INLINE void soften(const Acc* tile, int rows, int width, const Raise& raise, Acc* top, Acc* sums, Acc* base, Acc* shrink,
                         [[maybe_unused]] Acc* spread, const Put& put) {
  constexpr int lanes = kLanes<Acc>;
  // 0 · ln 0 is 0; any finite number in the place of −∞ will do.
  [[maybe_unused]] const Lane<Acc> floor = all(2 * Exponent<Acc>::lowest);
  [[maybe_unused]] alignas(64) Acc drift[kQueries<Acc>];
  for (int r = 0; r < rows; ++r) {
    const Acc* row = tile + r * kTileStride;
    Lane<Acc> left = load(row), right = load(row + lanes);
    for (int i = 2 * lanes; i < width; i += 2 * lanes) {
      left = maximum(left, load(row + i));
      right = maximum(right, load(row + i + lanes));
    }
    base[r] = raise.score(largest<Acc>(maximum(left, right)));
  }
  for (int r = rows; r < round_up(rows, lanes); ++r) base[r] = 0;
  for (int i = 0; i < round_up(rows, lanes); i += lanes) {
    Lane<Acc> before = load(top + i), now = maximum(load(base + i), before);
    store(top + i, now);
    // A row that has seen nothing yet keeps −inf as its maximum; −inf − 0 still becomes weight 0.
    now = now == Acc(-kInfinity) ? Lane<Acc>{} : now;
    store(base + i, now);
    store(shrink + i, exp<Acc>(before - now));
    if constexpr (with_spread) store(drift + i, maximum(floor, before - now));
  }
  for (int r = 0; r < rows; ++r) {
    const Acc* row = tile + r * kTileStride;
    Lane<Acc> left = load(sums + r * lanes), right = {};
    if constexpr (with_spread) store(spread + r * lanes, (load(spread + r * lanes) + left * drift[r]) * shrink[r]);
    left *= shrink[r];
    raise.for_row(base[r], [&](const auto& raise) __attribute__((always_inline)) {
      [[maybe_unused]] Lane<Acc> wide = {};
      for (int i = 0; i < width; i += 2 * lanes) {
        Lane<Acc> x = load(row + i), y = load(row + i + lanes);
        x = raise.less(x), y = raise.less(y);
        [[maybe_unused]] Lane<Acc> log_x = x, log_y = y;
        x = raise.weight(x), y = raise.weight(y);
        left += x;
        right += y;
        if constexpr (with_spread) wide += x * maximum(floor, log_x) + y * maximum(floor, log_y);
        put(r, i, x, y);
      }
      if constexpr (with_spread) store(spread + r * lanes, load(spread + r * lanes) + wide * raise.unit);
    });
    store(sums + r * lanes, left + right);
  }
}

// The same, where the weights take the place of the scores.
template <class Acc, bool with_spread, class Raise>
OVERT_APART void soften_in_place(Acc* tile, int rows, int width, const Raise& raise, Acc* top, Acc* sums, Acc* base, Acc* shrink,
                     Acc* spread) {
  soften<Acc, with_spread>(tile, rows, width, raise, top, sums, base, shrink, spread,
                           [tile](int r, int i, Lane<Acc> x, Lane<Acc> y) __attribute__((always_inline)) {
                             store(tile + r * kTileStride + i, x);
                             store(tile + r * kTileStride + i + kLanes<Acc>, y);
                           });
}

// Rows of values that are fetched before they are used.
constexpr int kAhead = 8;

// out = shrink · out + weights · values for M rows and W vectors of columns.  The sum of a block starts at 0: at 4096
// keys one long chain would lose three times as much to rounding.
template <class Acc, int M, int W>
OVERT_INLINE void mix_columns(const Acc* weights, const Acc* values, Index stride, int keys, const Acc* shrink,
                              Acc* out, Index width) {
  constexpr int lanes = kLanes<Acc>;
  Lane<Acc> sums[M][W];
  OVERT_UNROLL
  for (int r = 0; r < M; ++r) {
    OVERT_UNROLL
    for (int c = 0; c < W; ++c) sums[r][c] = Lane<Acc>{};
  }
#pragma GCC unroll 2
  for (int s = 0; s < keys; ++s) {
    Lane<Acc> value[W];
    OVERT_UNROLL
    for (int c = 0; c < W; ++c) {
      value[c] = load(values + c * lanes);
      // A slice of columns skips through memory in steps that the hardware's prefetcher follows badly.
      __builtin_prefetch(values + kAhead * stride + c * lanes);
    }
    OVERT_UNROLL
    for (int r = 0; r < M; ++r) {
      Lane<Acc> weight = all(weights[r * kTileStride + s]);
      OVERT_UNROLL
      for (int c = 0; c < W; ++c) sums[r][c] += weight * value[c];
    }
    values += stride;
  }
  OVERT_UNROLL
  for (int r = 0; r < M; ++r) {
    OVERT_UNROLL
    for (int c = 0; c < W; ++c) {
      Acc* to = out + r * width + c * lanes;
      store(to, load(to) * shrink[r] + sums[r][c]);
    }
  }
}

// Vectors of columns that M rows take at once: what the registers hold.
constexpr int columns_at_once(int M) {
  int W = 8;
  while (M * W > 2 * kRows) W /= 2;
  return W;
}

template <class Acc, int M, int W = columns_at_once(M)>
OVERT_INLINE void mix(const Acc* weights, const Values<Acc>& values, int keys, const Acc* shrink, Acc* out, Index width,
                      Index column = 0) {
  constexpr int step = W * kLanes<Acc>;
  if (step <= kPanel<Acc> || values.rows())
    for (; column + step <= width; column += step)
      mix_columns<Acc, M, W>(weights, values.column(column), values.step, keys, shrink, out + column, width);
  if constexpr (W > 1)
    if (column < width) mix<Acc, M, W / 2>(weights, values, keys, shrink, out, width, column);
}

// The same sums in the same order, of values times `unit`, but a weight of exactly 0 keeps its value out, though it be NaN
// or infinite.
template <class Acc>
void mix_carefully(int rows, const Acc* weights, const Values<Acc>& values, int keys, const Acc* shrink, Acc unit, Acc* out,
                   Index width) {
  for (int r = 0; r < rows; ++r)
    for (Index e = 0; e < width; e += kLanes<Acc>) {
      Acc* to = out + r * width + e;
      Lane<Acc> sums = {};
      for (int s = 0; s < keys; ++s)
        if (Acc weight = weights[r * kTileStride + s]; weight != 0)
          sums += weight * (load(values.column(e) + s * values.step) * unit);
      store(to, weighty(load(to), all(shrink[r])) * shrink[r] + sums);
    }
}

// What the rows of a task have seen so far.
template <class Acc> struct Running {
  static constexpr int lanes = kLanes<Acc>;
  Acc* top = nullptr;   // [groups][kQueries] maxima
  Acc* sums = nullptr;  // [groups][kRows][lanes] sums
  Acc* out = nullptr;   // [groups][kRows][width] outputs

  void place(Arena& arena, const Plan<Acc>& plan) {
    arena.take(top, plan.groups * kQueries<Acc>);
    arena.take(sums, plan.groups * kRows * lanes);
    arena.take(out, plan.groups * kRows * plan.width);
  }
};

// Few queries and many keys, as in decoding, would leave threads idle: their keys are split into parts, and what the
// parts have seen is joined at the end.  How many depends on shapes only.
constexpr Index kSplitQueries = 24, kSplitKeys = 2 * kBlock, kSplitTasks = 16;

inline Index splits(const Problem& p, Index heads) {
  Index sets = p.B * (p.H / heads);
  if (heads * p.T > kSplitQueries || sets == 0) return 1;
  return larger<Index>(1, smaller(p.S / kSplitKeys, kSplitTasks / sets));
}

// On tiles of a type of input, which is split in its own way, and elsewhere of an accumulator.
template <class Kind> struct Forward {
  using Acc = Accumulator<Kind>;
  static constexpr int lanes = kLanes<Acc>;

  struct Layout {
    const Plan<Acc>& plan;
    Index splits;
    Along* along;  // null: the output alone
  };

  struct Workspace {
    Desk<Acc> desk;
    Running<Acc> own;
    Kept<Acc> kept;
    char* pieces = nullptr;  // weights as tiles
    void place(Arena& arena, const Layout& layout) {
      desk.place(arena, layout.plan);
      own.place(arena, layout.plan);
      if (layout.along) kept.place(arena, layout.plan);
#if defined(OVERT_TILES)
      arena.take(pieces, kTerms<Kind> * kRows * kBlock * 2);
#endif
    }
  };
  struct Shared {
    Source<Acc> source;
    char* memory = nullptr;  // [tasks][splits] Running, if the keys are split
    Index bytes = 0;  // of a part
    Parts received;
    void place(Arena& arena, const Layout& layout) {
      const Plan<Acc>& plan = layout.plan;
      source.place(arena, plan);
      if (layout.along) received.place(arena, plan);
      if (layout.splits == 1) return;
      Arena part;
      Running<Acc>().place(part, plan);
      bytes = part.used;
      arena.take(memory, plan.tasks * layout.splits * bytes);
    }
    Running<Acc> part(const Plan<Acc>& plan, Index index) const {
      Arena arena{memory + index * bytes};
      Running<Acc> pieces;
      pieces.place(arena, plan);
      return pieces;
    }
  };

  const Problem& p;
  const Plan<Acc>& plan;
  const Shared& shared;
  const Scoring<Acc> scoring;
  const Dropping<Acc> dropping;
  void* output;
  const LogSum* lse;
  Along* along;
  Workspace work;
  Running<Acc> seen = work.own;
  bool first = true;  // these are the first keys that the rows see
  bool fresh[kMostGroups] = {};  // nothing has been in the outputs of a group yet

  Acc sink_of(Index place) const {
    return p.sinks ? static_cast<const Acc*>(p.sinks)[place / p.T % p.H] : Acc(-kInfinity);
  }

  // A sink is a key without a value that every row of its head has seen before the first block.
  OVERT_APART void reset(int i) {
    Acc* top = seen.top + i * kQueries<Acc>;
    Acc* sums = seen.sums + i * kRows * lanes;
    for (int r = 0; r < kQueries<Acc>; ++r) top[r] = -kInfinity;
    __builtin_memset(sums, 0, kRows * lanes * sizeof(Acc));
    fresh[i] = kTiled && !p.sinks;
    if (!fresh[i]) __builtin_memset(seen.out + i * kRows * plan.width, 0, kRows * plan.width * sizeof(Acc));
    if (along) __builtin_memset(work.kept.spread + i * kRows * lanes, 0, kRows * lanes * sizeof(Acc));
    if (!p.sinks || !first) return;
    const Group<Acc>& group = work.desk.groups[i];
    for (int r = 0; r < group.count; ++r) {
      Acc sink = sink_of(group.place[r]);
      if (sink == Acc(-kInfinity)) continue;
      top[r] = sink;
      sums[r * lanes] = sink - sink + 1;
    }
  }

  // With a `unit`, carefully, and of values times that.
  void take_block(int i, Range block, const Chunk<Acc>& chunk, Acc unit) {
    const Group<Acc>& group = work.desk.groups[i];
    Range range = visible(group, block);
    if (range.empty()) return;
    if (along) work.desk.tile = work.kept.tile(i, block);
    Acc* tile = work.desk.tile;
    Acc *top = seen.top + i * kQueries<Acc>, *sums = seen.sums + i * kRows * lanes;
    Acc* out = seen.out + i * kRows * plan.width;
    const Values<Acc> values = chunk.values_from(range.begin);
    alignas(64) Acc base[kQueries<Acc>], shrink[kQueries<Acc>];
    Acc *bases = along ? work.kept.base(i, block) : base, *spread = along ? work.kept.spread + i * kRows * lanes : nullptr;
    auto drop = [&](int width) {
      if (p.dropout > 0)
        for (int r = 0; r < group.count; ++r) dropping.drop(group.place[r], range.begin, width, tile + r * kTileStride);
    };
    auto weigh = [&](int width, const auto& raise) {
      if (along) soften_in_place<Acc, true>(tile, group.size, width, raise, top, sums, bases, shrink, spread);
      else soften_in_place<Acc, false>(tile, group.size, width, raise, top, sums, bases, shrink, spread);
    };
#if !defined(OVERT_TILES)
    int width = work.desk.score(plan, scoring, group, chunk, range), keys = range.end - range.begin;
    weigh(width, Raise<Acc>());
    drop(width);
    if (unit != 0) mix_carefully(group.size, tile, values, keys, shrink, unit, out, plan.width);
    else with_size(group.size, [&]<int M>() { mix<Acc, M>(tile, values, keys, shrink, out, plan.width); });
#else
    int panels = int(ceil_div(range.end - range.begin, kPanel<Acc>)), width = panels * kPanel<Acc>;
    char* pieces = work.pieces;
    const Acc* before = fresh[i] ? nullptr : shrink;
    fresh[i] = false;
    with_size(group.size, [&]<int M>() {
      auto give = [&](int r, int i, Lane<Acc> x, Lane<Acc> y) { split_weights<Kind, M>(r, i, x, y, panels, pieces); };
      auto raise = raise_from<Kind>(
          score_tiles<Kind, M>(p, work.desk.rows, scoring, group, chunk.keys(range.begin), range, tile));
      if (bool odd = any_odd(values.data, plan.value_size, panels); !odd && p.dropout == 0 && !along && unit == 0) {
        soften<Acc, false>(tile, M, width, raise, top, sums, bases, shrink, spread, give);
        mix_tiles<Kind, M>(pieces, values.data, plan.value_size, panels, before, out, plan.width);
      } else {
        weigh(width, raise);
        drop(width);
        const Acc factor = unit != 0 ? unit : 1;
        for (int r = 0; r < M; ++r)
          for (int i = 0; i < width; i += kPanel<Acc>)
            give(r, i, load(tile + r * kTileStride + i) * factor, load(tile + r * kTileStride + i + lanes) * factor);
        mix_tiles<Kind, M>(pieces, values.data, plan.value_size, panels, before, out, plan.width);
        if (odd)
          mix_odd_values<Kind>(p, work.desk.rows, group, values.data, plan.value_size, range, tile, factor, out, plan.width);
      }
    });
#endif
  }

  // Whether all rows of a group are finite, of those that have seen anything.
  bool sound(int i) const {
    Lane<Acc> suspect = {};
    for (int r = 0; r < work.desk.groups[i].count; ++r) {
      const Acc* out = seen.out + (i * kRows + r) * plan.width;
      if (sum<Acc>(load(seen.sums + (i * kRows + r) * lanes)) == 0) continue;
      for (Index e = 0; e < plan.width; e += lanes) suspect += load(out + e) * Acc(0);
    }
    return sum<Acc>(suspect) == 0;
  }

  // Writes the rows of a group.  Whether they are sound.  With a `unit` of the values, only what is not.
  bool finish(int i, Acc unit = 0) {
    if constexpr (kTiled) return finish_as<Kind>(i, unit);
    else return with_input<Acc>(p.type, [&]<class In>() { return finish_as<In>(i, unit); });
  }
  template <class In> bool finish_as(int i, Acc unit) {
    const Group<Acc>& group = work.desk.groups[i];
    const Index E = p.E;
    Lane<Acc> suspect = {};
    for (int r = 0; r < group.count; ++r) {
      const Acc* out = seen.out + (i * kRows + r) * plan.width;
      Acc total = sum<Acc>(load(seen.sums + (i * kRows + r) * lanes)), top = seen.top[i * kQueries<Acc> + r];
      In* to = static_cast<In*>(output) + group.place[r] * E;
      if (total == 0) {
        __builtin_memset(to, 0, E * sizeof(In));
      } else if (unit != 0) {
        finish_carefully(out, 1 / total, unit, to);
      } else {
        Acc inverse = 1 / total;
        Index e = 0;
        for (; e + lanes <= E; e += lanes) {
          Lane<Acc> x = load(out + e) * inverse;
          suspect += x * Acc(0);
          store_rounded(to + e, x);
        }
        for (; e < E; ++e) {
          Acc x = out[e] * inverse;
          suspect[0] += x * Acc(0);
          round_to(to + e, x);
        }
      }
      if (!lse && !along) continue;
      Acc log_total = natural_log(total), found = total == 0 ? Acc(-kInfinity) : top + log_total;
      if (lse) {
        // Two-sum: exactly what the addition has rounded away (Knuth, TAOCP 2, 4.2.2, theorem B).
        Acc added = found - top, rest = (top - (found - added)) + (log_total - added);
        static_cast<Acc*>(lse->value)[group.place[r]] = found;
        if (lse->rest) static_cast<Acc*>(lse->rest)[group.place[r]] = rest - rest == 0 ? rest : Acc(0);
      }
      if (!along) continue;
      Acc sink = sink_of(group.place[r]);
      static_cast<Acc*>(along->entropy)[group.place[r]] = work.kept.entropy(i * kRows + r, total, log_total, top, sink);
      // A row without a sum gives NaN to the keys that it sees, and only to these: that takes a pass of its own.
      if (found != found) __atomic_store_n(&along->found, false, __ATOMIC_RELAXED);
    }
    return sum<Acc>(suspect) == 0;
  }

  // Writes what came out unsound before, of a sum of values times `unit`.  What rounding has taken beyond the largest
  // number is that: no mean of numbers is larger.
  template <class In> OVERT_APART void finish_carefully(const Acc* out, Acc inverse, Acc unit, In* to) const {
    const Acc most = (sizeof(Acc) == 4 ? Acc(0x1.fffffep127) : Acc(0x1.fffffffffffffp1023)) * unit, near = most * Acc(1.001);
    for (Index e = 0; e < p.E; ++e) {
      Acc before = load_some(to + e, 1)[0], x = out[e] * inverse;
      if (before - before == 0) continue;
      if (x > most && x < near) x = most;
      if (x < -most && x > -near) x = -most;
      round_to(to + e, x / unit);
    }
  }

  static float natural_log(float x) { return logf(x); }
  static double natural_log(double x) { return ::log(x); }

  OVERT_APART void see_keys() {
    Desk<Acc>& desk = work.desk;
    for (int i = 0; i < desk.count; ++i) reset(i);
    desk.each_block(plan, shared.source, [&](Range block, const Chunk<Acc>& chunk) {
      for (int i = 0; i < desk.count; ++i) take_block(i, block, chunk, 0);
    });
  }

  // A NaN in a value that one row may not see reaches its row as 0 · NaN, when another row of the group may see it; and a
  // sum of values may overflow where their mean does not.
  // That is rare, so nothing guards against it until an output has come out wrong.
  OVERT_APART void see_keys_carefully(int i, Acc unit) {
    reset(i);
    work.desk.each_block(plan, shared.source,
                         [&](Range block, const Chunk<Acc>& chunk) { take_block(i, block, chunk, unit); });
  }
  OVERT_APART void start_over(int i) {
    // So many values, none of weight more than 1 before dropout, add up to no more than one of them.
    Acc unit = 1;
    for (double most = 4 * (double(p.S) + 1) / (1 - p.dropout); most > 1; most /= 2) unit /= 2;
    see_keys_carefully(i, unit);
    finish(i, unit);
  }

  void task(Index index) {
    work.desk.start(plan, shared.source, index, scoring);
    see_keys();
    for (int i = 0; i < work.desk.count; ++i)
      if (!finish(i)) start_over(i);
  }

  // The tasks that share sums of columns.
  void tasks_along(Index part) {
    Columns columns = shared.received.columns(part, p.S);
    columns.start();
    __builtin_memset(work.kept.received, 0, kBlock * sizeof(Acc));
    each_task(plan, part, [&](Index index) {
      task(index);
      work.kept.add_columns(work.desk, seen.top, seen.sums, columns);
    });
  }

  // One of the parts into which the keys of a task are split.
  void part(Index index, Index splits) {
    work.desk.start(plan, shared.source, index / splits, scoring);
    Index blocks = ceil_div(p.S, kBlock), split = index % splits;
    Range keys = {int(split * blocks / splits * kBlock), int((split + 1) * blocks / splits * kBlock)};
    work.desk.any = intersect(work.desk.any, keys);
    seen = shared.part(plan, index);
    first = split == 0;
    see_keys();
    for (int i = 0; i < work.desk.count; ++i)
      if (!kTiled && !sound(i)) see_keys_carefully(i, 1);
  }

  void join(Index index, Index splits) {
    work.desk.start(plan, shared.source, index, scoring);
    Running<Acc> all_seen = shared.part(plan, index * splits);
    for (Index split = 1; split < splits; ++split) {
      Running<Acc> part = shared.part(plan, index * splits + split);
      for (int row = 0; row < work.desk.count * kRows; ++row) join_row(all_seen, part, row);
    }
    for (int i = 0; i < work.desk.count; ++i) {
      seen = all_seen;
      if (finish(i)) continue;
      seen = work.own;
      first = true;
      start_over(i);
    }
  }

  void join_row(const Running<Acc>& into, const Running<Acc>& from, int row) const {
    int place = row / kRows * kQueries<Acc> + row % kRows;
    Acc before = into.top[place], other = from.top[place], top = larger(before, other);
    Acc *sums = into.sums + row * lanes, *out = into.out + row * plan.width;
    const Acc *more_sums = from.sums + row * lanes, *more_out = from.out + row * plan.width;
    // The output of a part in which the row has seen nothing may be 0 · NaN.
    bool old = sum<Acc>(load(sums)) != 0, more = sum<Acc>(load(more_sums)) != 0;
    if (!more) return;
    Lane<Acc> keep = exp<Acc>(all(before - top)), take = old ? exp<Acc>(all(other - top)) : all(Acc(1));
    into.top[place] = old ? top : other;
    store(sums, (old ? load(sums) * keep : Lane<Acc>{}) + load(more_sums) * take);
    for (Index e = 0; e < plan.width; e += lanes)
      store(out + e, (old ? weighty(load(out + e), keep) * keep : Lane<Acc>{}) + weighty(load(more_out + e), take) * take);
  }

  // Whether statistics come along: not in decoding, and not where they would have to be kept for too many keys.
  static bool pays(const Problem& p) {
    return p.S > 0 && p.H / p.G * p.T > kSplitQueries && p.dropout == 0 && Kept<Acc>::groups(p) > 0;
  }

  static bool run(const Problem& p, const Run& run, void* output, const LogSum* lse, Along* along) {
    if (along) along->found = pays(p);
    if (along && !along->found) along = nullptr;
    Run chosen = {worthwhile_threads(p, run), run.poison};
    // Log-sums alone, of values without columns, are those of the scores that the second passes compute, head by head.
    Plan<Acc> plan(p, along ? kFairThreads : chosen.threads, along || p.E == 0 ? 1 : p.H / p.G, true,
                   along ? Kept<Acc>::groups(p) : kMostGroups, run.panels);
    Index splits = along ? 1 : overt::OVERT_LEVEL::splits(p, plan.heads);
    Index parts = along ? all_parts(plan) : plan.tasks * splits;
    chosen.threads = int(smaller<Index>(chosen.threads, larger<Index>(parts, 1)));
    Layout layout{plan, splits, along};
    Scratch<Shared, Workspace, Layout> scratch(layout, chosen);
    if (!scratch.memory) return false;
    // Who asks for statistics looks at a model, as the passes do.
    if (along) scratch.most_spare = kSpareOfPasses;
    Shared shared = scratch.shared();
    Queue pieces, tasks, endings;
    in_parallel(chosen.threads, [&](int thread) {
      Forward forward = {p, plan, shared, Scoring<Acc>(p), Dropping<Acc>(p), output, lse, along,
                         scratch.workspace(thread)};
      shared.source.prepare(plan, pieces);
      wait_for_all(chosen.threads);
      if (along) {
        for (Index index; (index = tasks.take()) < parts;) forward.tasks_along(index);
        wait_for_all(chosen.threads);
        for (Index head; (head = endings.take()) < p.B * p.H;)
          shared.received.join(plan, head, static_cast<Acc*>(along->received));
        return;
      }
      if (splits == 1) {
        for (Index index; (index = tasks.take()) < plan.tasks;) forward.task(index);
        return;
      }
      for (Index index; (index = tasks.take()) < parts;) forward.part(index, splits);
      wait_for_all(chosen.threads);
      for (Index index; (index = endings.take()) < plan.tasks;) forward.join(index, splits);
    });
    return true;
  }
};

}  // namespace

bool forward(const Problem& p, const Run& run, void* output, const LogSum* lse, Along* along) {
#if defined(OVERT_TILES)
  return with_input<float>(p.type, [&]<class In>() { return Forward<In>::run(p, run, output, lse, along); });
#else
  return run_as<Forward>(p.type, p, run, output, lse, along);
#endif
}

}  // namespace overt::OVERT_LEVEL
