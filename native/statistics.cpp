// What each key receives and how spread out each query's attention is, in one pass over the weights.
// Compiled once per level; see README.md.
#include "parts.h"
#include "weigh.h"

namespace overt::OVERT_LEVEL {
namespace {

template <class In> struct Statistics {
  using Acc = Accumulator<In>;
  static constexpr int lanes = kLanes<Acc>;
  static constexpr bool has_ending = true;

  struct Arguments {
    LogSum lse;
    Acc* received;
    Acc* entropy;
  };
  using Layout = PassLayout<Acc, Arguments>;

  struct Shared {
    double* received = nullptr;  // [B · H][parts][S]
    void place(Arena& arena, const Layout& layout) {
      if (layout.arguments.received) arena.take(received, layout.tasks * layout.plan.p.S);
    }
  };
  struct Workspace {
    Desk<In> desk;
    Acc* spread = nullptr;    // [groups][kRows][lanes] Σ p log₂ p
    Acc* received = nullptr;  // [kBlock] of the rows of one block
    void place(Arena& arena, const Layout& layout) {
      desk.place(arena, layout.plan);
      arena.take(spread, layout.plan.groups * kRows * lanes);
      arena.take(received, kBlock);
    }
  };

  const Problem& p;
  const Plan<Acc>& plan;
  const Arguments& arguments;
  const Source<In>& source;
  const Shared& shared;
  const Scoring<Acc> scoring;
  Workspace work;

  template <int M, bool fused>
  OVERT_INLINE void add(const Acc* tile, int width, const Shift<Acc>& shift, Acc* received, Acc* spread) {
    // log₂ 0 = −inf would turn 0 · log₂ 0 into NaN; any finite number will do.
    const Lane<Acc> floor = all(2 * Exponent<Acc>::lowest);
    for (int i = 0; i < width; i += 2 * lanes) {
      Lane<Acc> left = load(received + i), right = load(received + i + lanes);
#pragma GCC unroll 4
      for (int r = 0; r < M; ++r) {
        Lane<Acc> x = shift.template log2_weights<fused>(load(tile + r * kTileStride + i), r);
        Lane<Acc> y = shift.template log2_weights<fused>(load(tile + r * kTileStride + i + lanes), r);
        Lane<Acc> p = exp2<Acc>(x), q = exp2<Acc>(y);
        left += p;
        right += q;
        store(spread + r * lanes, load(spread + r * lanes) + p * maximum(floor, x) + q * maximum(floor, y));
      }
      store(received + i, left);
      store(received + i + lanes, right);
    }
  }

  void task(Index part) {
    double* received = shared.received ? shared.received + part * p.S : nullptr;
    if (received) __builtin_memset(received, 0, p.S * sizeof(double));
    __builtin_memset(work.received, 0, kBlock * sizeof(Acc));
    each_task(plan, part, [&](Index index) { rows(index, received); });
  }

  void rows(Index index, double* received) {
    Desk<In>& desk = work.desk;
    desk.start(plan, source, index, scoring);
    __builtin_memset(work.spread, 0, desk.count * kRows * lanes * sizeof(Acc));
    desk.each_block(plan, source, [&](Range block, const Chunk<Acc>& chunk) {
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        if (range.empty()) continue;
        Shift<Acc> shift(group, arguments.lse);
        with_size(group.size, [&]<int M>() {
          int width = score_for_weights<M>(desk, plan, scoring, group, shift, chunk, range);
          shift.choose([&]<bool fused>() {
            add<M, fused>(desk.tile, width, shift, work.received + (range.begin - block.begin),
                          work.spread + i * kRows * lanes);
          });
        });
      }
      if (received) add_block(block, work.received, received);
    });
    if (arguments.entropy)
      for (int i = 0; i < desk.count; ++i)
        for (int r = 0; r < desk.groups[i].count; ++r)
          arguments.entropy[desk.groups[i].place[r]] =
              entropy_of<Acc>(-sum<Acc>(load(work.spread + (i * kRows + r) * lanes)) * Acc(kLn2));
  }

  Index endings() const { return arguments.received ? p.B * p.H : 0; }

  void finish(Index head) { join_parts(plan, shared.received, head, arguments.received); }

  static bool run(const Problem& p, const Run& run, const LogSum& lse, void* received, void* entropy) {
    Arguments arguments = {lse, static_cast<Acc*>(received), static_cast<Acc*>(entropy)};
    Plan<Acc> plan(p, kFairThreads, 1, false);
    return second_pass<In, Statistics>(plan, run, arguments, all_parts(plan));
  }
};

}  // namespace

bool statistics(const Problem& p, const Run& run, const LogSum& lse, void* received, void* entropy) {
  return run_as<Statistics>(p.type, p, run, lse, received, entropy);
}

}  // namespace overt::OVERT_LEVEL
