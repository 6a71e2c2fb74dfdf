// Reads a text letter by letter with the package in examples/recall; prints the letter it expects next.
//     recall examples/recall/recall.mlpackage "tide pool, tide p"
#include <anemone/error.h>
#include <anemone/predictor.h>

#include <iostream>

int main(int argc, char** argv) try {
  using namespace anemone;
  if (argc != 3) throw Error("usage: recall PACKAGE TEXT");
  const std::string alphabet = " abcdefghijklmnopqrstuvwxyz.,'-?", text = argv[2];
  const auto package = open_package(argv[1]);
  for (const Signature& function : signatures(*package))
    for (const TensorInfo& state : function.states) std::cout << "remembers " << state.name << "\n";
  const auto predictor = make_predictor(package);
  const auto state = predictor->make_state();  // lives from call to call
  Array mask(DType::fp32, {1, 1, 1, 32});
  for (float& value : mask.values<float>()) value = -10000;  // no place of the memory may be looked at yet
  for (size_t step = 0; step < text.size() && step < 32; ++step) {
    Array letter(DType::fp32, {1, 32, 1, 1}), write(DType::fp32, {1, 1, 32, 1});
    letter.values<float>()[alphabet.find(text[step]) % 32] = 1;  // an unknown letter counts as the last one
    write.values<float>()[step] = 1;                             // where it goes in the memory
    mask.values<float>()[step] = 0;
    const Prediction out =
        predictor->predict({{"letter", letter}, {"write_mask", write}, {"mask", mask}}, state.get());
    std::cout << text.substr(0, step + 1) << " -> '" << alphabet.at(out.at("best").to_int()[0]) << "'\n";
  }
} catch (const anemone::Error& e) {
  return std::cerr << "error: " << e.what() << "\n", 2;
}
