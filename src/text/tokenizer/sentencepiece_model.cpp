#include "text/tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <string>

#include "base/error.h"
#include "text/tokenizer/gguf_vocabulary.h"

namespace anemone {
namespace {

std::string_view view(protozero::data_view data) { return {data.data(), data.size()}; }

// Tag and wire type together: a field of another wire type is passed over like one that we do not know.
constexpr uint32_t bytes(uint32_t tag) { return tag << 3 | 2; }
constexpr uint32_t number(uint32_t tag) { return tag << 3; }
constexpr uint32_t fixed(uint32_t tag) { return tag << 3 | 5; }

struct Proto {
  std::vector<PieceEntry> pieces;
  int64_t model_type = 1;
  bool suffix = false, byte_fallback = false;
  int64_t unk = 0, bos = 1, eos = 2, pad = -1;
  std::string_view charsmap;
  bool add_prefix = true, squeeze = true, escape = true;
};

PieceEntry read_piece(protozero::pbf_reader message) {
  PieceEntry piece;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case bytes(1): piece.text = view(message.get_view()); break;
      case fixed(2): piece.score = message.get_float(); break;
      case number(3): piece.type = static_cast<PieceType>(std::clamp(message.get_enum(), 0, 6)); break;
      default: message.skip();
    }
  }
  return piece;
}

void read_trainer(protozero::pbf_reader message, Proto& proto) {
  while (message.next()) {
    switch (message.tag_and_type()) {
      case number(3): proto.model_type = message.get_enum(); break;
      case number(24): proto.suffix = message.get_bool(); break;
      case number(35): proto.byte_fallback = message.get_bool(); break;
      case number(40): proto.unk = message.get_int32(); break;
      case number(41): proto.bos = message.get_int32(); break;
      case number(42): proto.eos = message.get_int32(); break;
      case number(43): proto.pad = message.get_int32(); break;
      default: message.skip();
    }
  }
}

void read_normalizer(protozero::pbf_reader message, Proto& proto) {
  while (message.next()) {
    switch (message.tag_and_type()) {
      case bytes(2): proto.charsmap = view(message.get_view()); break;
      case number(3): proto.add_prefix = message.get_bool(); break;
      case number(4): proto.squeeze = message.get_bool(); break;
      case number(5): proto.escape = message.get_bool(); break;
      default: message.skip();
    }
  }
}

Proto read_proto(std::string_view file) {
  Proto proto;
  protozero::pbf_reader message(file.data(), file.size());
  while (message.next()) {
    switch (message.tag_and_type()) {
      case bytes(1): proto.pieces.push_back(read_piece(message.get_message())); break;
      case bytes(2): read_trainer(message.get_message(), proto); break;
      case bytes(3): read_normalizer(message.get_message(), proto); break;
      default: message.skip();
    }
  }
  return proto;
}

TokenizerSpec spec_of(const Proto& proto) {
  if (proto.pieces.empty()) throw errorf("no pieces").hint("is this a SentencePiece model?");
  if (proto.model_type != 1 && proto.model_type != 2) {
    throw errorf("SentencePiece model type is not supported")
        .found(std::to_string(proto.model_type))
        .expected("1 (unigram) or 2 (BPE)");
  }
  TokenizerSpec spec;
  const auto id_of = [&](int64_t id) {
    return id >= 0 && id < static_cast<int64_t>(proto.pieces.size()) ? static_cast<int32_t>(id) : kNoToken;
  };
  spec.unk = id_of(proto.unk);
  for (size_t i = 0; i < proto.pieces.size(); ++i) {
    if (proto.pieces[i].type == PieceType::unknown) spec.unk = static_cast<int32_t>(i);
  }
  spec.bos = id_of(proto.bos);
  spec.eos = id_of(proto.eos);
  spec.pad = id_of(proto.pad);
  add_pieces(proto.pieces, spec);
  for (AddedToken& token : spec.added) {  // user-defined pieces are looked for in the normalised text
    if (token.special) continue;
    token.normalized = true;
    token.normal_form = token.content;
  }
  TokenModelSpec& model = spec.model;
  model.kind = proto.model_type == 1 ? TokenModelSpec::Kind::unigram : TokenModelSpec::Kind::score_bpe;
  model.unk_id = spec.unk;
  model.byte_fallback = proto.byte_fallback;
  model.fuse_unk = true;
  model.single_precision = true;
  spec.normalizer.push_back({.kind = NormalizerStep::Kind::sentencepiece,
                             .content = std::string(proto.charsmap),
                             .add_prefix = proto.add_prefix,
                             .suffix = proto.suffix,
                             .squeeze = proto.squeeze,
                             .escape = proto.escape});
  add_piece_detokenizer(proto.add_prefix, spec);
  if (spec.bos != kNoToken) spec.post = {spec.bos, TokenizerSpec::kSequence};
  return spec;
}

}  // namespace

TokenizerSpec read_sentencepiece_model(const MappedFile& file) {
  try {
    return spec_of(read_proto(file.text()));
  } catch (const protozero::exception&) {
    throw errorf("is no SentencePiece model, or a damaged one")
        .at(file.path())
        .hint("was the download cut short?");
  } catch (Error& e) {
    e.within(file.path());
    throw;
  }
}

}  // namespace anemone
