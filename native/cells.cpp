// Weights themselves: the largest of each row, a pooled picture of all, or every one.
// Compiled once per level; see README.md.
#include "weigh.h"

namespace overt::OVERT_LEVEL {
namespace {

// What the three passes of this file have in common.
template <class In, class Arguments_> struct Pass {
  using Acc = Accumulator<In>;
  using Arguments = Arguments_;
  using Layout = PassLayout<Acc, Arguments>;
  using Shared = Nothing;
  static constexpr bool has_ending = false;
};

template <class Acc> struct Candidate {
  Acc score;
  int key;
  bool worse(const Candidate& other) const {
    return score < other.score || (score == other.score && key > other.key);
  }
};

// The best few of what was offered: a heap with the worst of them at its root.
template <class Acc> struct Best {
  Candidate<Acc>* heap;
  Index room, count;

  // Equal scores lose to what is there, for keys come in ascending order.
  Acc threshold() const { return count < room ? Acc(-kInfinity) : heap[0].score; }

  void sink(Candidate<Acc> x, Index size) {
    Index i = 0;
    for (Index child; (child = 2 * i + 1) < size; i = child) {
      if (child + 1 < size && heap[child + 1].worse(heap[child])) ++child;
      if (!heap[child].worse(x)) break;
      heap[i] = heap[child];
    }
    heap[i] = x;
  }
  void offer(Candidate<Acc> x) {
    if (!(x.score > threshold())) return;
    if (count == room) return sink(x, count);
    Index i = count++;
    for (Index parent; i > 0 && x.worse(heap[parent = (i - 1) / 2]); i = parent) heap[i] = heap[parent];
    heap[i] = x;
  }
  // Best first.
  void sort() {
    for (Index size = count; size > 1; --size) {
      Candidate<Acc> worst = heap[0];
      sink(heap[size - 1], size - 1);
      heap[size - 1] = worst;
    }
  }
};

template <class Acc> struct TopArguments {
  const Acc* lse;
  Index count;
  std::int64_t* indices;
  Acc* weights;
};

template <class In> struct Top : Pass<In, TopArguments<Accumulator<In>>> {
  using typename Pass<In, TopArguments<Accumulator<In>>>::Acc;
  using typename Pass<In, TopArguments<Accumulator<In>>>::Arguments;
  using typename Pass<In, TopArguments<Accumulator<In>>>::Layout;
  static constexpr int lanes = kLanes<Acc>;

  struct Workspace {
    Desk<In> desk;
    Candidate<Acc>* heaps = nullptr;  // [groups][kRows][count]
    Best<Acc>* best = nullptr;        // [groups][kRows]
    bool* taken = nullptr;            // [S]
    void place(Arena& arena, const Layout& layout) {
      const Plan<Acc>& plan = layout.plan;
      desk.place(arena, plan);
      arena.take(heaps, plan.groups * kRows * layout.arguments.count);
      arena.take(best, plan.groups * kRows);
      arena.take(taken, plan.p.S);
    }
  };

  const Problem& p;
  const Plan<Acc>& plan;
  const Arguments& arguments;
  const Source<In>& source;
  const Scoring<Acc> scoring;
  Workspace work;

  Top(const Problem& p, const Plan<Acc>& plan, const Arguments& arguments, const Source<In>& source, const Nothing&,
      const Scoring<Acc>& scoring, const Workspace& work)
      : p(p), plan(plan), arguments(arguments), source(source), scoring(scoring), work(work) {}

  // Most cells are too small, and a comparison of whole vectors says so.
  static void choose(const Acc* row, int width, int begin, Best<Acc>& best) {
    for (int i = 0; i < width; i += 2 * lanes) {
      Acc threshold = best.threshold();
      unsigned found = above<Acc>(load(row + i), threshold) | above<Acc>(load(row + i + lanes), threshold) << lanes;
      for (; found; found &= found - 1) {
        int c = i + __builtin_ctz(found);
        best.offer({row[c], begin + c});
      }
    }
  }

  void finish_row(Index place, Acc shift, Best<Acc>& best) {
    std::int64_t* indices = arguments.indices + place * arguments.count;
    Acc* weights = arguments.weights + place * arguments.count;
    best.sort();
    for (Index i = 0; i < best.count; ++i) {
      indices[i] = best.heap[i].key;
      weights[i] = exp2<Acc>(all(best.heap[i].score - shift))[0];
    }
    if (best.count == arguments.count) return;
    __builtin_memset(work.taken, 0, p.S);
    for (Index i = 0; i < best.count; ++i) work.taken[best.heap[i].key] = true;
    for (Index i = best.count, s = 0; i < arguments.count; ++s)
      if (!work.taken[s]) indices[i] = s, weights[i] = 0, ++i;
  }

  void task(Index index) {
    Desk<In>& desk = work.desk;
    desk.start(plan, source, index, scoring);
    for (Index i = 0; i < desk.count * kRows; ++i)
      work.best[i] = {work.heaps + i * arguments.count, arguments.count, 0};
    desk.each_block(plan, source, [&](Range block, const Chunk<Acc>& chunk) {
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        if (range.empty()) continue;
        int width = 0;
        with_size(group.size,
                  [&]<int M>() { width = desk.template score<M>(plan, scoring, group, chunk, range); });
        for (int r = 0; r < group.count; ++r)
          choose(desk.tile + r * kTileStride, width, range.begin, work.best[i * kRows + r]);
      }
    });
    for (int i = 0; i < desk.count; ++i) {
      Shift<Acc> shift(desk.groups[i], arguments.lse);
      for (int r = 0; r < desk.groups[i].count; ++r)
        finish_row(desk.groups[i].place[r], shift.of[r], work.best[i * kRows + r]);
    }
  }

  static bool run(const Problem& p, const Run& run, const void* lse, Index count, std::int64_t* indices, void* weights) {
    Arguments arguments = {static_cast<const Acc*>(lse), count, indices, static_cast<Acc*>(weights)};
    Plan<Acc> plan(p, worthwhile_threads(p, run), 1, false);
    return second_pass<In, Top>(plan, run, arguments, plan.tasks);
  }
};

template <class Acc> struct MapArguments {
  const Acc* lse;
  const Bins& bins;
  Acc* out;
  Index parts;  // tasks that share the row bins of a head
  Index most;   // row bins of one task
};

template <class In> struct Map : Pass<In, MapArguments<Accumulator<In>>> {
  using typename Pass<In, MapArguments<Accumulator<In>>>::Acc;
  using typename Pass<In, MapArguments<Accumulator<In>>>::Arguments;
  using typename Pass<In, MapArguments<Accumulator<In>>>::Layout;

  struct Workspace {
    Desk<In> desk;
    Acc* pooled = nullptr;     // [groups][kRows][columns]: rows pooled over each column bin
    double* picture = nullptr; // [row bins of the task][columns]
    void place(Arena& arena, const Layout& layout) {
      const Bins& bins = layout.arguments.bins;
      desk.place(arena, layout.plan);
      arena.take(pooled, layout.plan.groups * kRows * bins.column_count);
      arena.take(picture, layout.arguments.most * bins.column_count);
    }
  };

  const Problem& p;
  const Plan<Acc>& plan;
  const Arguments& arguments;
  const Source<In>& source;
  const Scoring<Acc> scoring;
  Workspace work;

  Map(const Problem& p, const Plan<Acc>& plan, const Arguments& arguments, const Source<In>& source, const Nothing&,
      const Scoring<Acc>& scoring, const Workspace& work)
      : p(p), plan(plan), arguments(arguments), source(source), scoring(scoring), work(work) {}

  // Joins two pooled numbers; NaN stays.
  template <class Number> OVERT_INLINE Number join(Number a, Number b) const {
    return arguments.bins.mean ? a + b : b > a || b != b ? b : a;
  }

  void pool_columns(const Group<Acc>& group, const Acc* tile, Range range, Acc* pooled) const {
    const Bins& bins = arguments.bins;
    for (Index c = 0; c < bins.column_count; ++c) {
      Index from = larger<Index>(bins.columns[2 * c], range.begin), to = smaller<Index>(bins.columns[2 * c + 1], range.end);
      if (from >= to) continue;
      for (int r = 0; r < group.count; ++r) {
        const Acc* row = tile + r * kTileStride;
        Acc& cell = pooled[r * bins.column_count + c];
        for (Index s = from; s < to; ++s) cell = join(cell, row[s - range.begin]);
      }
    }
  }

  void task(Index index) {
    const Bins& bins = arguments.bins;
    Index columns = bins.column_count, head = index / arguments.parts;
    Index first = index % arguments.parts * arguments.most, last = smaller(bins.row_count, first + arguments.most);
    if (first >= last) return;
    for (Index i = 0; i < (last - first) * columns; ++i) work.picture[i] = 0;
    Index top = p.T, bottom = 0;
    for (Index i = first; i < last; ++i) {
      top = smaller<Index>(top, bins.rows[2 * i]);
      bottom = larger<Index>(bottom, bins.rows[2 * i + 1]);
    }
    // Blocks count from the bottom; see Desk::start.
    Index height = Index(plan.groups) * kRows;
    for (Index block = top / height; block * height < bottom; ++block)
      rows(head * plan.blocks + plan.blocks - 1 - block, first, last, top, bottom);
    for (Index i = first; i < last; ++i)
      for (Index c = 0; c < columns; ++c) {
        double cells = double(bins.rows[2 * i + 1] - bins.rows[2 * i]) * double(bins.columns[2 * c + 1] - bins.columns[2 * c]);
        double value = work.picture[(i - first) * columns + c];
        arguments.out[(head * bins.row_count + i) * columns + c] = Acc(bins.mean ? value / cells : value);
      }
  }

  void rows(Index index, Index first_bin, Index last_bin, Index top, Index bottom) {
    const Bins& bins = arguments.bins;
    Index columns = bins.column_count;
    Desk<In>& desk = work.desk;
    desk.start(plan, source, index, scoring);
    Index start = desk.block * plan.groups * kRows;
    for (Index i = 0; i < desk.count * kRows * columns; ++i) work.pooled[i] = 0;
    desk.each_block(plan, source, [&](Range block, const Chunk<Acc>& chunk) {
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        Index t = start + i * kRows;
        if (range.empty() || t >= bottom || t + group.count <= top) continue;
        Shift<Acc> shift(group, arguments.lse);
        with_size(group.size, [&]<int M>() {
          int width = score_for_weights<M>(desk, plan, scoring, group, shift, chunk, range);
          weigh<Acc, M>(desk.tile, width, shift);
        });
        pool_columns(group, desk.tile, range, work.pooled + i * kRows * columns);
      }
    });
    Index end = smaller(p.T, start + desk.count * kRows);
    for (Index bin = first_bin; bin < last_bin; ++bin)
      for (Index t = larger<Index>(bins.rows[2 * bin], start); t < smaller<Index>(bins.rows[2 * bin + 1], end); ++t) {
        const Acc* pooled = work.pooled + (t - start) * columns;
        double* picture = work.picture + (bin - first_bin) * columns;
        for (Index c = 0; c < columns; ++c) picture[c] = join(picture[c], double(pooled[c]));
      }
  }

  static bool run(const Problem& p, const Run& run, const void* lse, const Bins& bins, void* out) {
    Plan<Acc> plan(p, 1, 1, false);
    Index parts = smaller(larger<Index>(1, bins.row_count), ceil_div(4 * run.threads, larger<Index>(1, p.B * p.H)));
    if (run.threads == 1) parts = 1;
    Arguments arguments = {static_cast<const Acc*>(lse), bins, static_cast<Acc*>(out), parts,
                           ceil_div(bins.row_count, parts)};
    return second_pass<In, Map>(plan, run, arguments, p.B * p.H * parts);
  }
};

template <class Acc> struct WeightsArguments {
  const Acc* lse;
  Acc* out;
};

template <class In> struct Weights : Pass<In, WeightsArguments<Accumulator<In>>> {
  using typename Pass<In, WeightsArguments<Accumulator<In>>>::Acc;
  using typename Pass<In, WeightsArguments<Accumulator<In>>>::Arguments;
  using typename Pass<In, WeightsArguments<Accumulator<In>>>::Layout;

  struct Workspace {
    Desk<In> desk;
    void place(Arena& arena, const Layout& layout) { desk.place(arena, layout.plan); }
  };

  const Problem& p;
  const Plan<Acc>& plan;
  const Arguments& arguments;
  const Source<In>& source;
  const Scoring<Acc> scoring;
  Workspace work;

  Weights(const Problem& p, const Plan<Acc>& plan, const Arguments& arguments, const Source<In>& source, const Nothing&,
          const Scoring<Acc>& scoring, const Workspace& work)
      : p(p), plan(plan), arguments(arguments), source(source), scoring(scoring), work(work) {}

  void task(Index index) {
    Desk<In>& desk = work.desk;
    desk.start(plan, source, index, scoring);
    for (int i = 0; i < desk.count; ++i)
      for (int r = 0; r < desk.groups[i].count; ++r)
        __builtin_memset(arguments.out + desk.groups[i].place[r] * p.S, 0, p.S * sizeof(Acc));
    desk.each_block(plan, source, [&](Range block, const Chunk<Acc>& chunk) {
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        if (range.empty()) continue;
        Shift<Acc> shift(group, arguments.lse);
        with_size(group.size, [&]<int M>() {
          int width = score_for_weights<M>(desk, plan, scoring, group, shift, chunk, range);
          weigh<Acc, M>(desk.tile, width, shift);
        });
        for (int r = 0; r < group.count; ++r)
          __builtin_memcpy(arguments.out + group.place[r] * p.S + range.begin, desk.tile + r * kTileStride,
                           (range.end - range.begin) * sizeof(Acc));
      }
    });
  }

  static bool run(const Problem& p, const Run& run, const void* lse, void* out) {
    Arguments arguments = {static_cast<const Acc*>(lse), static_cast<Acc*>(out)};
    Plan<Acc> plan(p, worthwhile_threads(p, run), 1, false);
    return second_pass<In, Weights>(plan, run, arguments, plan.tasks);
  }
};

}  // namespace

bool top(const Problem& p, const Run& run, const void* lse, Index count, std::int64_t* indices, void* weights) {
  return run_as<Top>(p.type, p, run, lse, count, indices, weights);
}
bool map(const Problem& p, const Run& run, const void* lse, const Bins& bins, void* out) {
  return run_as<Map>(p.type, p, run, lse, bins, out);
}
bool weights(const Problem& p, const Run& run, const void* lse, void* out) {
  return run_as<Weights>(p.type, p, run, lse, out);
}

}  // namespace overt::OVERT_LEVEL
