#include "base/thread_pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace anemone;

TEST_CASE("every index is visited once, whatever the thread count") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t count : {1, 7, 64, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      pool.parallel_for(count, 3, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      for (auto& hit : hits) REQUIRE(hit == 1);
    }
  }
}

TEST_CASE("an exception in a body reaches the caller and the pool works on") {
  ThreadPool pool(4);
  CHECK_THROWS_AS(pool.parallel_for(100, 1, [](int64_t, int64_t) { throw std::runtime_error("no"); }),
                  std::runtime_error);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  CHECK(sum == 100);
}

TEST_CASE("a nested loop runs on the thread that asks for it") {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      pool.parallel_for(10, 1, [&](int64_t b, int64_t e) { sum += e - b; });
  });
  CHECK(sum == 80);
}

// Plain memory on purpose: the thread sanitizer sees whether one loop's writes come before what follows it.
TEST_CASE("what a loop writes is there when it returns, loop after loop and from several callers") {
  ThreadPool pool(4);
  const auto work = [&pool](int64_t* wrong) {
    std::vector<int64_t> values(64, 0);
    for (int64_t round = 1; round <= 300; ++round) {
      pool.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += i;
        std::this_thread::yield();  // so that the others get a part
      });
      for (int64_t i = 0; i < 64; ++i) *wrong += values[static_cast<size_t>(i)] != round * i;
    }
  };
  int64_t wrong[3] = {};
  std::thread first(work, &wrong[0]), second(work, &wrong[1]);
  work(&wrong[2]);
  first.join();
  second.join();
  for (const int64_t n : wrong) CHECK(n == 0);
}
