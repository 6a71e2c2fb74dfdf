#include "package/description.h"
#include "package/wire.h"

namespace anemone {
namespace {

using wire::Message;

Message range_message(const SizeRange& range) {
  Message out;
  out.unsigned_integer(1, range.lower);
  out.integer(2, range.upper);
  return out;
}

Message array_message(const ArrayFeature& array) {
  Message out;
  out.integers(1, array.shape);
  out.integer(2, array.data_type);
  if (!array.enumerated.empty()) {
    Message list;
    for (const auto& shape : array.enumerated) {
      Message item;
      item.integers(1, shape);
      list.message(1, item);
    }
    out.message(21, list);
  }
  if (!array.range.empty()) {
    Message list;
    for (const SizeRange& range : array.range) list.message(1, range_message(range));
    out.message(31, list);
  }
  if (const auto* value = std::get_if<int32_t>(&array.default_value)) out.integer_always(41, *value);
  if (const auto* value = std::get_if<float>(&array.default_value)) out.float_always(51, *value);
  if (const auto* value = std::get_if<double>(&array.default_value)) out.double_always(61, *value);
  return out;
}

Message image_message(const ImageFeature& image) {
  Message out;
  out.integer(1, image.width);
  out.integer(2, image.height);
  out.integer(3, image.color_space);
  if (!image.enumerated.empty()) {
    Message list;
    for (const auto& [width, height] : image.enumerated) {
      Message size;
      size.integer(1, width);
      size.integer(2, height);
      list.message(1, size);
    }
    out.message(21, list);
  }
  if (image.range) {
    Message range;
    range.message(1, range_message(image.range->first));
    range.message(2, range_message(image.range->second));
    out.message(31, range);
  }
  return out;
}

Message type_message(const FeatureType& type) {
  Message out, inner;
  switch (type.kind) {
    case FeatureType::Kind::none: break;
    case FeatureType::Kind::image: inner = image_message(type.image); break;
    case FeatureType::Kind::array: inner = array_message(type.array); break;
    case FeatureType::Kind::state: inner.message(1, array_message(type.array)); break;
    case FeatureType::Kind::dictionary:
      if (type.item != FeatureType::Kind::none) inner.data(type.item == FeatureType::Kind::int64 ? 1 : 2, "");
      break;
    case FeatureType::Kind::sequence:
      if (type.item != FeatureType::Kind::none) inner.data(type.item == FeatureType::Kind::int64 ? 1 : 3, "");
      if (type.length) inner.message(101, range_message(*type.length));
      break;
    default: break;  // int64, double and string are empty messages
  }
  if (type.kind != FeatureType::Kind::none) out.message(static_cast<uint32_t>(type.kind), inner);
  out.boolean(1000, type.optional);
  return out;
}

std::string encode_feature_type(const FeatureType& type) {
  if (!type.original.empty()) {
    try {
      if (decode_feature_type(type.original) == type) return type.original;
    } catch (const std::exception&) {  // changed by hand: written from its members
    }
  }
  return type_message(type).bytes();
}

void features(Message& out, uint32_t tag, const std::vector<Feature>& list) {
  for (const Feature& feature : list) out.data(tag, encode_feature(feature));
}

Message interface_message(const Interface& interface) {
  Message out;
  out.text(1, interface.name);
  features(out, 2, interface.inputs);
  features(out, 3, interface.outputs);
  out.text(4, interface.predicted_feature);
  out.text(5, interface.predicted_probabilities);
  features(out, 6, interface.states);
  out.raw(interface.extra);
  return out;
}

Message metadata_message(const Metadata& metadata) {
  Message out;
  out.text(1, metadata.description);
  out.text(2, metadata.version);
  out.text(3, metadata.author);
  out.text(4, metadata.license);
  for (const auto& [key, value] : metadata.user) {
    Message entry;
    entry.text(1, key);
    entry.text(2, value);
    out.message(100, entry);
  }
  out.raw(metadata.extra);
  return out;
}

}  // namespace

std::string encode_feature(const Feature& feature) {
  Message out;
  out.text(1, feature.name);
  out.text(2, feature.description);
  if (feature.type.kind != FeatureType::Kind::none || !feature.type.original.empty() || feature.type.optional)
    out.data(3, encode_feature_type(feature.type));
  out.raw(feature.extra);
  return out.bytes();
}

std::string encode_description(const Description& description) {
  Message out;
  const Interface& main = description.main;
  features(out, 1, main.inputs);
  features(out, 10, main.outputs);
  out.text(11, main.predicted_feature);
  out.text(12, main.predicted_probabilities);
  features(out, 13, main.states);
  for (const Interface& function : description.functions) out.message(20, interface_message(function));
  out.text(21, description.default_function);
  features(out, 50, description.training_inputs);
  if (description.metadata) out.message(100, metadata_message(*description.metadata));
  out.raw(main.extra);
  return out.bytes();
}

}  // namespace anemone
