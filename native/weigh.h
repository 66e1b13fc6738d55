// Weights without the forward pass's output: exp(score − lse), from queries, keys and the log-sum of each row.
#pragma once
#include "blocks.h"

namespace overt::OVERT_LEVEL {

// What is subtracted from the scores of the rows of a group.
template <class Acc> struct Shift {
  Acc value[kRows], rest[kRows];  // the rest is in units of log₂
  bool spoilt[kRows];
  bool any_spoilt;
  bool fused;  // the log-sums are small: all of them is in rest

  Shift(const Group<Acc>& group, const LogSum& lse) : any_spoilt(false), fused(kFuses && !lse.rest) {
    for (int r = 0; r < group.size; ++r) {
      Acc x = r < group.count ? static_cast<const Acc*>(lse.value)[group.place[r]] : Acc(0);
      rest[r] = r < group.count && lse.rest ? static_cast<const Acc*>(lse.rest)[group.place[r]] * Acc(kLog2e) : Acc(0);
      spoilt[r] = x != x;
      any_spoilt |= spoilt[r];
      // A row that sees nothing has lse −inf and weights 0.
      value[r] = x == Acc(-kInfinity) ? Acc(kInfinity) : x;
      if (spoilt[r]) value[r] = rest[r] = 0;
    }
    if (fused)
      for (int r = 0; r < group.size; ++r) rest[r] = value[r] * Acc(kLog2e);
  }

  // log₂ of the weights of row r.  What is near the log-sum loses nothing in the first difference.
  template <bool fused> OVERT_INLINE Lane<Acc> log2_weights(Lane<Acc> scores, int r) const {
    if constexpr (fused) return scores * Acc(kLog2e) - rest[r];
    else return (scores - value[r]) * Acc(kLog2e) - rest[r];
  }
  // Calls body.operator()<fused>().
  template <class Body> OVERT_INLINE void choose(const Body& body) const {
    if (fused) body.template operator()<true>();
    else body.template operator()<false>();
  }
};

// score(), and NaN for the visible cells of a row whose lse is NaN, so that its masked cells still get weight 0.
template <class Acc>
OVERT_APART int score_for_weights(const Desk<Acc>& desk, const Plan<Acc>& plan, const Scoring<Acc>& scoring, const Group<Acc>& group,
                      const Shift<Acc>& shift, const Chunk<Acc>& chunk, Range range) {
  int width = desk.score(plan, scoring, group, chunk, range);
  if (shift.any_spoilt)
    for (int r = 0; r < group.size; ++r) {
      if (!shift.spoilt[r]) continue;
      Acc* row = desk.tile + r * kTileStride;
      for (int i = 0; i < width; ++i) row[i] = __builtin_nanf("");
      mask_row(group, r, range.begin, width, Acc(-kInfinity), row);
    }
  return width;
}

// Turns some rows of scores into weights.
template <class Acc> OVERT_APART void weigh(Acc* tile, int rows, int width, const Shift<Acc>& shift) {
  shift.choose([&]<bool fused>() {
    for (int r = 0; r < rows; ++r) {
      Acc* row = tile + r * kTileStride;
      for (int i = 0; i < width; i += kLanes<Acc>)
        store(row + i, exp2<Acc>(shift.template log2_weights<fused>(load(row + i), r)));
    }
  });
}

// Runs Pass::task(index) for all tasks of a plan.  Pass{problem, plan, source, arguments, workspace} is made once per
// thread; Pass::finish(index), where index counts Pass::endings, runs after all tasks are done.
template <class Pass, class Acc, class Arguments>
bool second_pass(const Plan<Acc>& plan, const Run& run, const Arguments& arguments, Index tasks) {
  Run chosen = {int(smaller<Index>(worthwhile_threads(plan.p, run), larger<Index>(tasks, 1))), run.poison};
  struct Shared {
    Source<Acc> source;
    typename Pass::Shared own;
    void place(Arena& arena, const typename Pass::Layout& layout) {
      source.place(arena, layout.plan);
      own.place(arena, layout);
    }
  };
  typename Pass::Layout layout{plan, arguments, tasks};
  Scratch<Shared, typename Pass::Workspace, typename Pass::Layout> scratch(layout, chosen);
  if (!scratch.memory) return false;
  scratch.most_spare = kSpareOfPasses;
  Shared shared = scratch.shared();
  Queue pieces, queue, endings;
  in_parallel(chosen.threads, [&](int thread) {
    Pass pass = {plan.p, plan, arguments, shared.source, shared.own, Scoring<Acc>(plan.p), scratch.workspace(thread)};
    shared.source.prepare(plan, pieces);
    wait_for_all(chosen.threads);
    for (Index index; (index = queue.take()) < tasks;) pass.task(index);
    if constexpr (Pass::has_ending) {
      wait_for_all(chosen.threads);
      for (Index index; (index = endings.take()) < pass.endings();) pass.finish(index);
    }
  });
  return true;
}

// What every pass lays out its memory by.
template <class Acc, class Arguments> struct PassLayout {
  const Plan<Acc>& plan;
  const Arguments& arguments;
  Index tasks;
};
struct Nothing {
  template <class Layout> void place(Arena&, const Layout&) {}
};

}  // namespace overt::OVERT_LEVEL
