#include "predict/predict_queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

using namespace anemone;

namespace {

void take_time() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

}  // namespace

TEST_CASE("a queue runs every job, in order with one place and no more than its places at once with more") {
  for (const int places : {0, 1, 3}) {
    CAPTURE(places);
    std::atomic<int> now{0}, most{0}, done{0};
    std::vector<int> order;
    PredictQueue queue(places);
    CHECK(queue.in_flight() == static_cast<size_t>(std::max(places, 1)));
    for (int i = 0; i < 20; ++i)
      queue.add([&, i] {
        const int here = ++now;
        for (int seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {
        }
        if (places <= 1) order.push_back(i);
        take_time();
        --now;
        ++done;
      });
    queue.finish();
    CHECK(done == 20);
    CHECK(most <= std::max(places, 1));
    if (places > 1) CHECK(most > 1);
    for (size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<int>(i));
    queue.add([&] { ++done; });  // it can go on
    queue.finish();
    CHECK(done == 21);
  }
}

TEST_CASE("after an error no job begins, and the first error is thrown when those under way have ended") {
  for (const int places : {1, 3}) {
    std::atomic<int> begun{0}, ended{0};
    PredictQueue queue(places);
    for (int i = 0; i < 50; ++i)
      queue.add([&, i] {
        ++begun;
        take_time();
        if (i == 4) throw std::runtime_error("the fifth");
        ++ended;
      });
    CHECK_THROWS_WITH_AS(queue.finish(), "the fifth", std::runtime_error);
    CHECK(begun == ended + 1);  // nothing is under way
    CHECK(begun < 50);
    CHECK(queue.cancelled());
  }
}

TEST_CASE("a queue that is cancelled in the middle ends what is under way and begins nothing") {
  std::atomic<int> begun{0}, ended{0};
  PredictQueue queue(2);
  for (int i = 0; i < 100; ++i)
    queue.add([&] {
      ++begun;
      take_time();
      if (++ended == 10) queue.cancel();
    });
  queue.finish();
  CHECK(begun == ended);
  CHECK(ended >= 10);
  CHECK(ended <= 12);
  queue.add([&] { ++begun; });
  queue.finish();
  CHECK(begun == ended);
}

TEST_CASE("a queue that goes away waits for what is under way") {
  std::atomic<int> begun{0}, ended{0};
  {
    PredictQueue queue(3);
    for (int i = 0; i < 100; ++i)
      queue.add([&] {
        ++begun;
        take_time();
        ++ended;
      });
    take_time();
  }
  CHECK(begun == ended);
  CHECK(ended < 100);
}
