// Reads a text letter by letter with the package of examples/recall and prints the letter that it expects
// next.
//     recall examples/recall/recall.mlpackage "tide pool, tide p"
#include <anemone/error.h>
#include <anemone/predictor.h>

#include <iostream>
#include <string>

int main(int argc, char** argv) try {
  const std::string alphabet = " abcdefghijklmnopqrstuvwxyz.,'-?";
  const int64_t letters = 32, context = 32;
  if (argc != 3) return std::cerr << "usage: recall PACKAGE TEXT\n", 2;
  const auto package = anemone::open_package(argv[1]);
  for (const anemone::TensorInfo& state : anemone::signatures(*package).at(0).states)
    std::cout << "remembers " << state.name << "\n";
  const auto predictor = anemone::make_predictor(package);
  const auto state = predictor->make_state();  // what the head remembers between calls
  anemone::Array letter(anemone::DType::fp32, {1, letters, 1, 1}),
      write(anemone::DType::fp32, {1, 1, context, 1});
  anemone::Array mask(anemone::DType::fp32, {1, 1, 1, context});
  for (float& value : mask.values<float>()) value = -10000;  // no place of the memory may be looked at yet
  const std::string text = argv[2];
  for (size_t step = 0; step < text.size() && step < context; ++step) {
    const size_t index = alphabet.find(text[step]) % letters;  // unknown letters count as the last one
    letter.values<float>()[index] = write.values<float>()[step] = 1;
    mask.values<float>()[step] = 0;
    const anemone::Prediction out =
        predictor->predict({{"letter", letter}, {"write_mask", write}, {"mask", mask}}, state.get());
    std::cout << text.substr(0, step + 1) << " -> '" << alphabet.at(out.at("best").to_int()[0]) << "'\n";
    letter.values<float>()[index] = write.values<float>()[step] = 0;
  }
} catch (const anemone::Error& e) {
  std::cerr << "error: " << e.what() << "\n";
  return 2;
}
