#include "pool.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace overt {
namespace {

using std::chrono::nanoseconds;

long long now() {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Who waits looks so long for what is likely to come at once, and then sleeps: to be woken takes 40 microseconds.  The CPU
// is offered to whatever runs beside it after every look.
constexpr long long kSpin = 200'000;
// Most calls are over before they are asked whether to stop.
constexpr long long kFirstAsk = 20'000'000;
// So many ticks pass between two looks at the clock: half a millisecond to two.
constexpr long long kLook = 2'000'000;
constexpr std::size_t kStackBytes = 1 << 20;

// What counts nanoseconds or faster, and costs less than they do.
long long ticks() {
#if defined(__x86_64__)
  return (long long)__builtin_ia32_rdtsc();
#else
  return now();
#endif
}

template <class Done> bool spin_until(const Done& done) {
  if (done()) return true;
  for (long long end = now() + kSpin; now() < end;) {
    for (int i = 0; i < 8; ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    sched_yield();
    if (done()) return true;
  }
  return false;
}

// A thread's rounding, and what it does with subnormal numbers.
struct Arithmetic {
#if defined(__x86_64__)
  unsigned mode;
  static Arithmetic current() { return {__builtin_ia32_stmxcsr()}; }
  void set() const { __builtin_ia32_ldmxcsr(mode); }
  // Results, and operands.
  Arithmetic flushed() const { return {mode | 0x8000 | 0x0040}; }
#elif defined(__aarch64__)
  std::uint64_t mode;
  static Arithmetic current() {
    std::uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return {mode};
  }
  void set() const { asm volatile("msr fpcr, %0" ::"r"(mode)); }
  Arithmetic flushed() const { return {mode | 1 << 24}; }
#else
  static Arithmetic current() { return {}; }
  void set() const {}
  Arithmetic flushed() const { return {}; }
#endif
};

// Those who work on one call.  Teams are used again and never freed, so that who leaves last may still wake a caller who
// has gone.
struct Team {
  // Guarded by the pool's mutex: how many may come, how many have, and the next team, of those that somebody may still
  // come to or of those that are not in use.
  int room, joined;
  bool open;
  Team* next;

  void (*body)(const void*, int);
  const void* argument;
  Call* call;

  // How often all have waited for each other, how many wait for that again, and how many there are.
  static constexpr std::uint64_t kMember = 1, kArrival = 1 << 16, kPhase = std::uint64_t(1) << 32;
  std::atomic<std::uint64_t> state{0};
  static int members(std::uint64_t state) { return int(state % kArrival); }
  static int arrived(std::uint64_t state) { return int(state % kPhase / kArrival); }
  static unsigned phase(std::uint64_t state) { return unsigned(state / kPhase); }

  std::atomic<int> sleepers{0};
  std::mutex mutex;
  std::condition_variable changed;

  // After every change that somebody may wait for.
  void wake() {
    if (sleepers == 0) return;
    { std::lock_guard<std::mutex> held(mutex); }
    changed.notify_all();
  }

  template <class Done> void wait_until(const Done& done, bool caller) {
    if (spin_until(done)) return;
    ++sleepers;
    std::unique_lock<std::mutex> held(mutex);
    while (!done()) {
      if (!caller) {
        changed.wait(held);
        continue;
      }
      changed.wait_for(held, nanoseconds(kFirstAsk / 2));
      held.unlock();
      call->ask_in_time();
      // Others may have held the mutex when the process was forked.
      if (call->orphaned()) return;
      held.lock();
    }
    --sleepers;
  }
};

// A worker that sleeps, which it does with the pool's mutex.
class Sleeper {
 public:
  Sleeper* next = nullptr;

  void sleep(std::unique_lock<std::mutex>& held) {
    woken_ = false;
    called_.wait(held, [&] { return woken_; });
#if defined(__linux__)
    if (kept_away_) pthread_setaffinity_np(thread_, sizeof own_, &own_);
    kept_away_ = false;
#endif
  }

  // By who goes on to work: some kernels wake a thread on the CPU of who wakes it, where it comes to run when the work is
  // done.
  void wake() {
#if defined(__linux__)
    const int here = sched_getcpu();
    if (here >= 0 && here < CPU_SETSIZE && !pthread_getaffinity_np(thread_, sizeof own_, &own_)) {
      cpu_set_t elsewhere = own_;
      CPU_CLR(here, &elsewhere);
      // Of no CPU at all nothing comes but an error.
      kept_away_ = CPU_ISSET(here, &own_) && !pthread_setaffinity_np(thread_, sizeof elsewhere, &elsewhere);
    }
#endif
    woken_ = true;
    called_.notify_one();
  }

 private:
  std::condition_variable called_;
  bool woken_ = false;
#if defined(__linux__)
  const pthread_t thread_ = pthread_self();
  cpu_set_t own_;
  bool kept_away_ = false;
#endif
};

struct Pool {
  std::mutex mutex;
  std::atomic<unsigned> calls{0};
  // Guarded by the mutex.
  Team *open = nullptr, *unused = nullptr;
  Sleeper* asleep = nullptr;
  int workers = 0, busy = 0;

  bool start_worker();
  void work();
  void close(Team* team);
  Team* publish(int room, void (*body)(const void*, int), const void* argument, Call* call);
  void take_back(Team* team);
};

// Null until somebody needs it, and again in a child of fork, where the parent's workers do not exist.
std::atomic<Pool*> the_pool{nullptr};
std::atomic<unsigned> forks{0};

Pool* pool() {
  static const int watched = pthread_atfork(nullptr, nullptr, [] {
    the_pool = nullptr;
    ++forks;
  });
  Pool* found = the_pool;
  if (found || watched) return found;
  Pool* made = new (std::nothrow) Pool;
  if (!made || the_pool.compare_exchange_strong(found, made)) return made;
  delete made;
  return found;
}

// What a thread works on.
struct Membership {
  Call* call = nullptr;
  Team* team = nullptr;  // null: it is alone
  int thread = 0;
  unsigned phase = 0;
  // Of thread 0.
  long long look = 0;
  Arithmetic outside = {};
};
thread_local Membership mine;

void Pool::work() {
  Sleeper self;
  std::unique_lock<std::mutex> held(mutex);
  for (;;) {
    if (Team* team = open) {
      mine = {team->call, team, team->joined++};
      team->state += Team::kMember;
      if (team->joined == team->room) close(team);
      ++busy;
      held.unlock();
      team->body(team->argument, mine.thread);
      held.lock();
      --busy;
      // Where one has found nothing more to do, nobody would.
      close(team);
      team->state -= Team::kMember;
      team->wake();
      continue;
    }
    unsigned before = calls;
    auto called_again = [&] { return calls != before; };
    held.unlock();
    bool soon = spin_until(called_again);
    held.lock();
    if (soon || called_again()) continue;
    self.next = asleep, asleep = &self;
    self.sleep(held);
  }
}

// The mutex is held.
bool Pool::start_worker() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes)) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // Signals are for those who have handlers.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto work = [](void* pool) -> void* {
    Arithmetic::current().flushed().set();
    static_cast<Pool*>(pool)->work();
    return nullptr;
  };
  pthread_t thread;
  bool started = !pthread_create(&thread, &attributes, work, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  workers += started;
  return started;
}

// The mutex is held.
void Pool::close(Team* team) {
  if (!team->open) return;
  team->open = false;
  Team** place = &open;
  while (*place != team) place = &(*place)->next;
  *place = team->next;
}

// Lets others come to a call.  Null where there is no memory.
Team* Pool::publish(int room, void (*body)(const void*, int), const void* argument, Call* call) {
  std::lock_guard<std::mutex> held(mutex);
  Team* team = unused;
  if (team) unused = team->next;
  else team = new (std::nothrow) Team;
  if (!team) return nullptr;
  team->room = room, team->joined = 1, team->open = true;
  team->body = body, team->argument = argument, team->call = call;
  team->state = Team::kMember;
  // Who came first is served first.
  Team** last = &open;
  while (*last) last = &(*last)->next;
  *last = team;
  team->next = nullptr;
  ++calls;
  for (int wanted = room - 1; wanted > 0 && asleep; --wanted) {
    Sleeper* woken = asleep;
    asleep = woken->next;
    woken->wake();
  }
  return team;
}

// Waits until all others have left.
void Pool::take_back(Team* team) {
  {
    std::lock_guard<std::mutex> held(mutex);
    close(team);
  }
  team->wait_until([&] { return Team::members(team->state) == 1; }, true);
  if (team->call->orphaned()) return;
  std::lock_guard<std::mutex> held(mutex);
  team->next = unused;
  unused = team;
}

int processors() {
  static const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? int(online) : 1;
}

// Of these, those that the process may run on.
int own_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
  return processors();
}

}  // namespace

int most_threads() { return processors() < 16 ? 16 : processors(); }

int default_threads() {
  static const int found = [] {
    // A list names the counts of nested teams, and the first is ours.
    const char* asked = getenv("OMP_NUM_THREADS");
    char* end = nullptr;
    long count = asked ? strtol(asked, &end, 10) : 0;
    while (end && (*end == ' ' || *end == '\t')) ++end;
    bool understood = count > 0 && (*end == ',' || !*end);
    return !understood ? own_processors() : count < INT_MAX ? int(count) : INT_MAX;
  }();
  return found;
}

Call::Call(Pause (*ask)()) : ask_(ask), next_(0) {
  mine.call = this;
  mine.look = ask ? ticks() + kLook : 0;
}
Call::~Call() { mine.call = nullptr; }

void Call::ask_in_time() {
  if (!ask_ || ticks() < mine.look || stopped_) return;
  mine.look = ticks() + kLook;
  const long long time = now();
  if (!next_) next_ = time + kFirstAsk;
  if (time < next_) return;
  const Membership inside = mine;
  const Arithmetic flushed = Arithmetic::current();
  const unsigned before = forks;
  mine = {};
  inside.outside.set();
  Pause pause = ask_();
  flushed.set();
  mine = inside;
  Team* team = mine.team;
  if (team && forks != before) {
    orphaned_ = true;
    team->state = Team::phase(team->state) * Team::kPhase + Team::kMember;
    team->sleepers = 0;
  }
  next_ = now() + pause;
  if (pause != kStop && !orphaned_) return;
  stopped_ = true;
  if (team) team->wake();
}

int hire(int wanted) {
  Pool* all = wanted > 1 ? pool() : nullptr;
  if (!all) return 1;
  static const int own = own_processors();
  std::lock_guard<std::mutex> held(all->mutex);
  // Those who are busy with another call have their places filled only as far as there are CPUs.
  int missing = wanted - 1, most = (wanted < own ? own : wanted) - 1;
  while (all->workers < most && all->workers - all->busy < missing && all->start_worker()) continue;
  return 1 + (all->workers < missing ? all->workers : missing);
}

void work_together(int threads, void (*body)(const void*, int), const void* argument) {
  const Membership before = mine;
  const Arithmetic outside = Arithmetic::current();
  Pool* all = threads > 1 ? pool() : nullptr;
  Team* team = all ? all->publish(threads, body, argument, before.call) : nullptr;
  mine = {before.call, team, 0, 0, before.look, outside};
  outside.flushed().set();
  body(argument, 0);
  if (team && !before.call->orphaned()) all->take_back(team);
  mine = before;
  outside.set();
}

void wait_for_others() {
  Team* team = mine.team;
  if (!team) return;
  const unsigned phase = mine.phase++;
  for (std::uint64_t state = team->state;;) {
    if (Team::phase(state) != phase) return;
    bool last = Team::arrived(state) + 1 == Team::members(state);
    std::uint64_t next =
        last ? (phase + 1) * Team::kPhase + Team::kMember * Team::members(state) : state + Team::kArrival;
    if (!team->state.compare_exchange_weak(state, next)) continue;
    if (last) return team->wake();
    break;
  }
  team->wait_until([&] { return Team::phase(team->state) != phase; }, mine.thread == 0);
}

bool stopped() {
  Call* call = mine.call;
  if (!call) return false;
  if (mine.thread == 0) call->ask_in_time();
  return call->stopped();
}

void wait_for_turn(const int* turn, int value) {
  Team* team = mine.team;
  if (!team) return;
  auto come = [&] { return __atomic_load_n(turn, __ATOMIC_SEQ_CST) == value || team->call->stopped(); };
  team->wait_until(come, mine.thread == 0);
}

void pass_turn(int* turn, int next) {
  __atomic_store_n(turn, next, __ATOMIC_SEQ_CST);
  if (mine.team) mine.team->wake();
}

}  // namespace overt
