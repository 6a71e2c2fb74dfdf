#include <doctest/doctest.h>

#include "mil/ops/near.h"
#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

// The weights of the Python script that gave the expected values.
std::vector<float> weights(int count, int seed) {
  std::vector<float> out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<float>((i * 3 + seed) % 7 - 3) / 4);
  return out;
}

// Three steps, a batch of one, one input, two hidden values.
OpTester layer(const char* op, int gates) {
  OpTester tester(op);
  tester.in("x", {3, 1, 1}, {0.5f, -1, 2})
      .in("initial_h", {1, 2}, {0.1f, -0.2f})
      .weight("weight_ih", {gates * 2, 1}, weights(gates * 2, 0))
      .weight("weight_hh", {gates * 2, 2}, weights(gates * 4, 1));
  return tester;
}

}  // namespace

// Expected values: the definitions in numpy, in double precision.
TEST_CASE("rnn runs forward and in reverse, giving the order of its steps") {
  const auto run = [](const char* direction, bool sequence) {
    return layer("rnn", 1)
        .weight("bias", {2}, {0.1f, 0.2f})
        .set("direction", direction)
        .set("output_sequence", sequence)
        .run();
  };
  const auto forward = run("forward", true);
  CHECK(near(forward[0].floats, {-0.3583574f, 0.124353f, 0.785766f, 0.4372034f, -0.9333249f, -0.3707778f}));
  CHECK(near(forward[1].floats, {-0.9333249f, -0.3707778f}));
  CHECK(near(run("reverse", true)[0].floats,
             {-0.9051483f, 0.124353f, 0.8701416f, 0.7058483f, -0.4881348f, -0.4240389f}));
  const auto last = run("forward", false);
  CHECK(last[0].type.shape == Shape{1, 1, 2});
  CHECK(near(last[0].floats, {-0.9333249f, -0.3707778f}));
  CHECK_THROWS_AS(run("bidirectional", true), Error);
  CHECK_THROWS_AS(layer("rnn", 1).set("activation", "other").infer(), Error);
}

TEST_CASE("a state with more rows than the batch gives the first ones") {
  const auto run = [](int64_t rows, std::vector<float> state) {
    OpTester tester("rnn");
    tester.in("x", {3, 1, 1}, {0.5f, -1, 2})
        .in("initial_h", {rows, 2}, std::move(state))
        .weight("weight_ih", {2, 1}, weights(2, 0))
        .weight("weight_hh", {2, 2}, weights(4, 1));
    return tester.run();
  };
  const auto wide = run(3, {0.1f, -0.2f, 7, 7, 7, 7});
  CHECK(wide[1].type.shape == Shape{1, 2});
  CHECK(wide[0].floats == run(1, {0.1f, -0.2f})[0].floats);
  CHECK_THROWS_AS(run(0, {}), Error);
}

TEST_CASE("gru resets before or after the recurrent product") {
  const auto run = [](bool after) {
    return layer("gru", 3)
        .weight("bias", {6}, weights(6, 2))
        .weight("input_bias", {6}, weights(6, 3))
        .set("output_sequence", true)
        .set("reset_after", after)
        .run()[0]
        .floats;
  };
  CHECK(near(run(false), {-0.1798926f, 0.2382712f, -0.8358124f, 0.36585f, 0.0567339f, 0.1387528f}));
  CHECK(near(run(true), {0.032306f, 0.2256023f, -0.7544061f, 0.3610448f, 0.2614335f, -0.0216567f}));
}

TEST_CASE("lstm with a bias, peepholes and a clipped cell") {
  const auto out = layer("lstm", 4)
                       .in("initial_c", {1, 2}, {0.3f, 0.4f})
                       .weight("bias", {8}, weights(8, 2))
                       .weight("peephole", {6}, weights(6, 3))
                       .set("clip", 0.35f)
                       .set("output_sequence", true)
                       .run();
  CHECK(near(out[0].floats, {0.1269954f, -0.0662572f, 0.0658857f, 0.0730243f, 0.1712739f, -0.088317f}));
  CHECK(near(out[1].floats, {0.1712739f, -0.088317f}));
  CHECK(near(out[2].floats, {0.35f, -0.35f}));
}

TEST_CASE("a bidirectional lstm puts both directions side by side") {
  const auto make = [](bool sequence) {
    OpTester tester("lstm");
    tester.in("x", {3, 1, 1}, {0.5f, -1, 2})
        .in("initial_h", {1, 4}, {0.1f, -0.2f, 0.5f, 0.6f})
        .in("initial_c", {1, 4}, {0.3f, 0.4f, 0.7f, 0.8f})
        .weight("weight_ih", {8, 1}, weights(8, 0))
        .weight("weight_hh", {8, 2}, weights(16, 1))
        .weight("weight_ih_back", {8, 1}, weights(8, 4))
        .weight("weight_hh_back", {8, 2}, weights(16, 5))
        .set("direction", "bidirectional")
        .set("output_sequence", sequence);
    return tester.run();
  };
  const std::vector<float> last = {0.0051614f, -0.1003891f, -0.0052685f, 0.0417719f};
  const auto out = make(true);
  CHECK(near(out[0].floats, {0.111622f, -0.0041444f, -0.0052685f, 0.0417719f, -0.0453986f, 0.1705352f,
                             0.0974292f, 0.0043925f, 0.0051614f, -0.1003891f, 0.0108527f, 0.4067786f}));
  CHECK(near(out[1].floats, last));
  CHECK(near(out[2].floats, {0.0073441f, -0.354672f, -0.0115302f, 0.0769215f}));
  CHECK(near(make(false)[0].floats, last));
}

TEST_CASE("recurrent layers keep symbols and refuse what does not fit") {
  const Dim s = Dim::symbol(1), b = Dim::symbol(2);
  OpTester tester("gru");
  tester.of_type("x", Type::tensor(DType::fp32, {s, b, 1}))
      .of_type("initial_h", Type::tensor(DType::fp32, {b, 2}))
      .weight("weight_ih", {6, 1}, weights(6, 0))
      .weight("weight_hh", {6, 2}, weights(12, 1))
      .set("output_sequence", true);
  CHECK(tester.infer()[0].shape == Shape{s, b, 2});
  CHECK(tester.infer()[1].shape == Shape{b, 2});
  CHECK_THROWS_AS(layer("gru", 4).infer(), Error);
  CHECK_THROWS_AS(layer("lstm", 4).infer(), Error);  // no initial_c
}
