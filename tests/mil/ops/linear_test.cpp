#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

TEST_CASE("linear multiplies by the transposed weight and adds the bias") {
  for (const DType dtype : {DType::fp32, DType::fp16}) {
    OpTester tester("linear");
    tester.in("x", {2, 1, 3}, {1, 2, 3, 4, 5, 6})
        .weight("weight", {2, 3}, {1, 0, 2, -1, 1, 0.5f}, dtype)
        .weight("bias", {2}, {10, 20}, dtype);
    CHECK(tester.run()[0].floats == std::vector<float>{17, 22.5f, 26, 24});
    CHECK(tester.infer()[0].shape == Shape{2, 1, 2});
  }
}

TEST_CASE("linear without a bias, of a vector, of integers that wrap") {
  CHECK(OpTester("linear").in("x", {2}, {3, 4}).weight("weight", {1, 2}, {5, 6}).run()[0].floats ==
        std::vector<float>{39});
  CHECK(
      OpTester("linear")
          .in_ints("x", {1, 2}, {65536, 3})
          .constant("weight", Constant::from_bytes(Type::tensor(DType::int32, {1, 2}),
                                                   {std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0},
                                                    std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}}))
          .run()[0]
          .ints == std::vector<int32_t>{6});
}

TEST_CASE("linear keeps symbols and refuses other sizes") {
  const Dim t = Dim::symbol(1);
  CHECK(OpTester("linear")
            .of_type("x", Type::tensor(DType::fp16, {1, t, 3}))
            .weight("weight", {2, 3}, {1, 2, 3, 4, 5, 6}, DType::fp16)
            .infer()[0]
            .shape == Shape{1, t, 2});
  CHECK_THROWS_AS(OpTester("linear").in("x", {4}, {1, 2, 3, 4}).weight("weight", {1, 3}, {1, 2, 3}).infer(),
                  Error);
}

TEST_CASE("a weight larger than a tile gives the same for any number of threads") {
  const int64_t n = 150, k = 2100;
  std::vector<float> w(static_cast<size_t>(n * k)), x(static_cast<size_t>(2 * k));
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 5 % 9) - 4);
  std::vector<float> expected;  // sums of small integers: exact
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t o = 0; o < n; ++o) {
      int sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += static_cast<int>(x[static_cast<size_t>(r * k + i)] * w[static_cast<size_t>(o * k + i)]);
      expected.push_back(static_cast<float>(sum));
    }
  for (const int threads : {1, 3}) {
    OpTester tester("linear");
    tester.in("x", {2, k}, x).weight("weight", {n, k}, w, DType::fp16);
    CHECK(tester.run(threads)[0].floats == expected);
    OpTester other("matmul");  // the weight on the left, transposed: [k, n] as stored
    other.weight("x", {n, k}, w, DType::fp16).in("y", {k, 2}, [&] {
      std::vector<float> columns(x.size());
      for (int64_t i = 0; i < k; ++i)
        for (int64_t r = 0; r < 2; ++r)
          columns[static_cast<size_t>(i * 2 + r)] = x[static_cast<size_t>(r * k + i)];
      return columns;
    }());
    const auto out = other.run(threads)[0].floats;
    bool equal = true;
    for (int64_t o = 0; o < n; ++o)
      for (int64_t r = 0; r < 2; ++r)
        equal &= out[static_cast<size_t>(o * 2 + r)] == expected[static_cast<size_t>(r * n + o)];
    CHECK(equal);
  }
}

TEST_CASE("matmul follows numpy") {
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  CHECK(OpTester("matmul").in("x", {2, 3}, six).in("y", {3, 2}, six).run()[0].floats ==
        std::vector<float>{22, 28, 49, 64});
  CHECK(
      OpTester("matmul").in("x", {3, 2}, six).in("y", {3, 2}, six).set("transpose_x", true).run()[0].floats ==
      std::vector<float>{35, 44, 44, 56});
  CHECK(OpTester("matmul")
            .in("x", {2, 3}, six)
            .weight("y", {2, 3}, six)
            .set("transpose_y", true)
            .run()[0]
            .floats == std::vector<float>{14, 32, 32, 77});
  CHECK(OpTester("matmul").in("x", {3}, {1, 2, 3}).weight("y", {3, 2}, six).run()[0].floats ==
        std::vector<float>{22, 28});
  const auto dot = OpTester("matmul").in("x", {3}, {1, 2, 3}).in("y", {3}, {4, 5, 6}).run()[0];
  CHECK(dot.type.rank() == 0);
  CHECK(dot.floats == std::vector<float>{32});
  const auto batch = OpTester("matmul").in("x", {2, 1, 1, 2}, {1, 2, 3, 4}).in("y", {3, 2, 1}, six).run()[0];
  CHECK(batch.type.shape == Shape{2, 3, 1, 1});
  CHECK(batch.floats == std::vector<float>{5, 11, 17, 11, 25, 39});
  CHECK(OpTester("matmul").in_ints("x", {1, 2}, {2, 3}).in_ints("y", {2, 1}, {4, 5}).run()[0].ints ==
        std::vector<int32_t>{23});
  CHECK_THROWS_AS(OpTester("matmul").in("x", {2, 3}, six).in("y", {2, 3}, six).infer(), Error);
  const Dim t = Dim::symbol(1);
  CHECK(OpTester("matmul")
            .of_type("x", Type::tensor(DType::fp16, {1, t, 3}))
            .of_type("y", Type::tensor(DType::fp16, {4, 3, t}))
            .infer()[0]
            .shape == Shape{4, t, t});
  CHECK(OpTester("matmul").in("x", {2, 0}, {}).in("y", {0, 1}, {}).run()[0].floats ==
        std::vector<float>{0, 0});
}

TEST_CASE("einsum multiplies and sums as its equation says") {
  const auto run = [](const char* equation, std::vector<int64_t> x, std::vector<int64_t> y) {
    std::vector<float> a(12), b(12);
    for (int i = 0; i < 12; ++i)
      a[static_cast<size_t>(i)] = b[static_cast<size_t>(i)] = static_cast<float>(i);
    int64_t nx = 1, ny = 1;
    for (const int64_t d : x) nx *= d;
    for (const int64_t d : y) ny *= d;
    a.resize(static_cast<size_t>(nx));
    b.resize(static_cast<size_t>(ny));
    return OpTester("einsum").in("values", x, a).in("values", y, b).set("equation", equation).run()[0];
  };
  // numpy.einsum of arange
  CHECK(run("ab,bc->ac", {2, 3}, {3, 2}).floats == std::vector<float>{10, 13, 28, 40});
  CHECK(run("ab,bc->ca", {2, 3}, {3, 2}).floats == std::vector<float>{10, 28, 13, 40});
  CHECK(run("nchw,nwhu->nchu", {1, 2, 2, 3}, {1, 3, 2, 2}).floats ==
        std::vector<float>{20, 23, 80, 92, 92, 113, 188, 218});
  CHECK(run("chw,whr->chr", {2, 1, 2}, {2, 3, 1}).type.shape == Shape{2, 3, 1});
  CHECK(run("ii,i->i", {2, 2}, {2}).floats == std::vector<float>{0, 3});
  CHECK(run("a,b->", {3}, {3}).floats == std::vector<float>{9});
  CHECK_THROWS_AS(run("ab,bc->ad", {2, 3}, {3, 2}), Error);
  CHECK_THROWS_AS(run("ab,bc->ac", {2, 3}, {2, 3}), Error);
}

TEST_CASE("a product of floats and integers has the type of the value, not of the weight") {
  const auto linear = OpTester("linear")
                          .in("x", {1, 2}, {1.5f, 2}, DType::fp16)
                          .constant("weight",
                                    [] {
                                      Constant c = Constant::ints({3, 4});
                                      c.type = Type::tensor(DType::int32, {1, 2});
                                      return c;
                                    }())
                          .constant("bias", Constant::ints({10}))
                          .run()[0];
  CHECK(linear.type.dtype == DType::fp16);
  CHECK(linear.floats == std::vector<float>{22.5f});
  const auto matmul =
      OpTester("matmul").weight("x", {1, 2}, {1, 2}, DType::fp16).in_ints("y", {2, 1}, {3, 4}).run()[0];
  CHECK(matmul.type.dtype == DType::int32);
  CHECK(matmul.ints == std::vector<int32_t>{11});
}
