// Tokenizer speed on one thread, CPU time: to load, bytes a second to encode (first run and warm) and to
// decode.
//     bench_tokenize SOURCE TEXT.txt [RUNS]        SOURCE: tokenizer.json, .gguf, tokenizer.model
// bench/tokenize_peers.py prints the same for Hugging Face tokenizers and llama.cpp; bench/make_text.py
// writes the text.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "anemone/error.h"
#include "base/mapped_file.h"
#include "text/tokenizer.h"

using namespace anemone;

namespace {

// CPU time of this program: what other programs do at the time does not count.
double seconds_of(auto&& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

int run(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: tokenize SOURCE TEXT.txt [RUNS]\n");
    return 2;
  }
  const auto file = MappedFile::open(argv[2]);
  const int runs = argc > 3 ? std::max(1, std::atoi(argv[3])) : 9;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<double> loads, encodes;
  for (int i = 0; i < runs; ++i) loads.push_back(seconds_of([&] { tokenizer = Tokenizer::load(argv[1]); }));
  std::vector<int32_t> ids;
  for (int i = 0; i < runs; ++i)
    encodes.push_back(seconds_of([&] { ids = tokenizer->encode(file->text()); }));
  std::string text;
  const double decode = seconds_of([&] { text = tokenizer->decode(ids); });
  const double first_load = loads[0], first = encodes[0];
  std::sort(loads.begin(), loads.end());
  std::sort(encodes.begin(), encodes.end());
  const double mb = static_cast<double>(file->size()) / 1e6, median = encodes[encodes.size() / 2];
  uint64_t sum = 0;  // to compare with the peers' ids
  for (int32_t id : ids) sum = sum * 31 + static_cast<uint32_t>(id);
  fmt::print("load     {:.1f} ms (first {:.1f})\n", loads[loads.size() / 2] * 1e3, first_load * 1e3);
  fmt::print("encode   {:.1f} MB/s, {:.2f} Mtok/s (first run {:.1f} MB/s); {} tokens, checksum {:016x}\n",
             mb / median, static_cast<double>(ids.size()) / median / 1e6, mb / first, ids.size(), sum);
  fmt::print("decode   {:.1f} MB/s{}\n", mb / decode, text == file->text() ? "" : " (not the same text)");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
